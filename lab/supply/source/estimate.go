package source

// span is how long work takes, in seconds: on the machine that the recipes were measured on, and on this one.
type span struct{ recipe, here float64 }

// doubt is how much longer work is taken to go on that has reached its estimate, as a part of the time that it has taken.
const doubt = 0.25

// telling is the shortest span that says something of a machine.
const telling = 5 // seconds of a recipe

// remaining estimates how many seconds are left. What was done here says how much slower or faster than the recipes this machine is. What is under way takes as
// long as that makes it, or longer by a part of what it has taken; so it never comes to an end before it does, and what goes slower than expected slows the rest
// down in proportion.
func remaining(done span, doing []span, todo float64) float64 {
	all, pace := done, done.pace()
	left := 0.0
	for _, s := range doing {
		whole := max(s.recipe*pace, s.here*(1+doubt))
		left += whole - s.here
		if s.recipe >= telling {
			all.recipe += s.recipe
			all.here += whole
		}
	}
	return left + todo*all.pace()
}

// pace is how many seconds of this machine a second of the recipes is.
func (s span) pace() float64 {
	if s.recipe == 0 {
		return 1
	}
	return s.here / s.recipe
}
