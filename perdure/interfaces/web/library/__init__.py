"""What later runs may be given, and a person's word on what runs propose."""
