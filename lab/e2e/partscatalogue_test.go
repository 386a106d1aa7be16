//go:build e2e

package e2e

import "testing"

// TestCatalogue enables addons of the catalogue on a running lab, checks that they do their job, and disables them. TestWholeCatalogue does the same on either engine.
func TestCatalogue(t *testing.T) { play(t) }

func catalogueSuite() suite {
	return suite{name: "TestCatalogue", lab: shared("e2e-catalogue", "hub", "dev"), parts: []part{
		{"up", func(_ *testing.T, l *testLab) { l.must("up", "--fix") }},
		{"two addons enabled and disabled", inTheCatalogue},
		{"down leaves no remains", finalDown},
	}}
}

// inTheCatalogue enables two addons, one after another, and disables both. Nothing may be left.
func inTheCatalogue(t *testing.T, l *testLab) {
	before := l.inventory(t)
	entries := catalogue[:2]
	for _, e := range entries {
		t.Run(e.name, func(t *testing.T) { // its objects go before the addon does
			l.within(t, func(t *testing.T, l *testLab) {
				took, did := l.enabled(t, e)
				t.Logf("%s: %.0fs, %s", e.name, took.Seconds(), did)
			})
		})
	}
	l.disabled(t, before, entries...)
}
