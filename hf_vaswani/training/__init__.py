"""From a recipe to a trained model: arguments, schedule, the Accelerate loop, checkpoints and checkpoint averaging."""
