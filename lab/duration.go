package lab

import (
	"fmt"
	"math"
	"time"
)

// Duration formats a duration for users: 0.4s, 17.8s, 1m 12s, 2h 5m.
func Duration(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	if tenths := d.Round(100 * time.Millisecond); tenths < time.Minute {
		return fmt.Sprintf("%.1fs", tenths.Seconds())
	}
	return WholeSeconds(d)
}

// WholeSeconds formats a duration without tenths: 18s, 1m 12s, 2h 5m.
func WholeSeconds(d time.Duration) string {
	s := int64(math.Round(max(0, d.Seconds())))
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm %ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh %dm", s/3600, s%3600/60)
}
