"""What can be asked of the compiler besides one plan with few cycles."""
