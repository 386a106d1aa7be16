package source

// span is a duration in seconds: on the machine of the recipes' measurements, and on this one.
type span struct{ recipe, here float64 }

// doubt is the share of the elapsed time by which overdue work is extended.
const doubt = 0.25

// minSpan is the shortest span to judge a machine by.
const minSpan = 5 // seconds of a recipe

// remaining estimates the seconds left. Finished work gives this machine's pace. Work in progress takes its scaled
// estimate or, if overdue, doubt longer than so far: the estimate never reaches zero early, and overdue work slows down
// the rest in proportion.
func remaining(done span, doing []span, todo float64) float64 {
	all, pace := done, done.pace()
	left := 0.0
	for _, s := range doing {
		whole := max(s.recipe*pace, s.here*(1+doubt))
		left += whole - s.here
		if s.recipe >= minSpan {
			all.recipe += s.recipe
			all.here += whole
		}
	}
	return left + todo*all.pace()
}

// pace returns seconds on this machine per second of the recipes.
func (s span) pace() float64 {
	if s.recipe == 0 {
		return 1
	}
	return s.here / s.recipe
}
