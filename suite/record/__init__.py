"""What a run leaves behind: the log, the evidence folder, the system description, and the views made of them."""
