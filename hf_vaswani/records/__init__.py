"""What a run leaves behind for its card and its verification: its results, and its trail."""

RESULTS_FILE = "results.json"
# The file that the Hub reads for the leaderboards of datasets.
EVAL_RESULTS = ".eval_results/hf_vaswani.yaml"
