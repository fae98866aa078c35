"""Text: what is done to words before and after a model reads them. Pure, no lane's business."""
