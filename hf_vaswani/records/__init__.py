"""What a run leaves behind for its card and its verification: its results, and its trail."""
