"""What is learned: labelled data and the problems it comes from."""
