package conformance

// Paused returns a Local that calls pause before each step.
func Paused(pause func()) Local { return Local{pause: pause} }
