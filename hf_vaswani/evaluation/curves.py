def draw_curves(log, picture):
    pass
