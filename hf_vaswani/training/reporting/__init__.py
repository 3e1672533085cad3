"""What a run says of itself: log, scores, figures, report, model card."""
