"""What one worker does in one step, and what workers send each other."""
