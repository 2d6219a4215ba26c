"""The checkpoint store: objects that outlive the machines of the workers."""
