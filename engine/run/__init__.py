"""How one step runs: the stages of each worker and the exchanges between them, in the driver or as a Spark job."""
