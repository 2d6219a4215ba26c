"""The step log's records and its state machine, without I/O. Open to coordinator and stepwell."""
