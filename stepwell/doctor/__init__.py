"""What `stepwell doctor` looks at: the machine, the broker and the topics, the state. Each module gives checks; none raises."""
