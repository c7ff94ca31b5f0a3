package pgstore

import "slices"

// Later adds the step of a planted later release, until restore is called.
func Later(text string, minReader int) (restore func()) {
	before := steps
	steps = append(slices.Clip(steps), step{text, minReader})
	return func() { steps = before }
}

// Earlier leaves the first steps only, until restore is called.
func Earlier(schema int) (restore func()) {
	before := steps
	steps = steps[:schema]
	return func() { steps = before }
}
