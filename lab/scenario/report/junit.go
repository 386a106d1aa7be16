// Package report writes results of scenarios as JUnit XML and as HTML.
package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"homelab/lab"
	"homelab/lab/scenario"
)

// The JUnit XML elements that CI systems read (https://github.com/testmoapp/junitxml).
type (
	suites struct {
		XMLName  xml.Name `xml:"testsuites"`
		Name     string   `xml:"name,attr"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Errors   int      `xml:"errors,attr"`
		Skipped  int      `xml:"skipped,attr"`
		Time     string   `xml:"time,attr"`
		Suites   []suite  `xml:"testsuite"`
	}
	suite struct {
		Name       string     `xml:"name,attr"`
		Tests      int        `xml:"tests,attr"`
		Failures   int        `xml:"failures,attr"`
		Errors     int        `xml:"errors,attr"`
		Skipped    int        `xml:"skipped,attr"`
		Time       string     `xml:"time,attr"`
		Timestamp  string     `xml:"timestamp,attr"`
		Properties properties `xml:"properties"`
		Cases      []testCase `xml:"testcase"`
	}
	properties struct {
		List []property `xml:"property"`
	}
	property struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	testCase struct {
		Name    string  `xml:"name,attr"`
		Class   string  `xml:"classname,attr"`
		Time    string  `xml:"time,attr"`
		File    string  `xml:"file,attr,omitempty"`
		Failure *reason `xml:"failure"`
		Error   *reason `xml:"error"`
		Skipped *reason `xml:"skipped"`
		Out     string  `xml:"system-out,omitempty"`
	}
	reason struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes a test suite per scenario and a test case per step.
func JUnit(w io.Writer, results []*scenario.Result) error {
	all := suites{Name: "lab scenario run"}
	total := time.Duration(0)
	for _, r := range results {
		s := suiteOf(r)
		all.Suites = append(all.Suites, s)
		all.Tests, all.Failures, all.Errors, all.Skipped = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors, all.Skipped+s.Skipped
		total += r.Took
	}
	all.Time = seconds(total)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func suiteOf(r *scenario.Result) suite {
	s := suite{Name: r.Scenario, Time: seconds(r.Took), Timestamp: r.Began.UTC().Format("2006-01-02T15:04:05")}
	s.Properties.List = []property{{"lab", printable(r.Lab)}, {"engine", string(r.Engine)}, {"verdict", string(r.Verdict)}}
	for _, m := range r.Measures {
		s.Properties.List = append(s.Properties.List, property{"seconds from " + printable(m.From) + " to " + printable(m.Name), seconds(m.Took)})
	}
	if len(r.Steps) == 0 { // nothing was played: one case for the story
		s.Cases = []testCase{outcome(testCase{Name: printable(r.Title), Class: r.Scenario, Time: seconds(r.Took)}, r.Verdict, r.Reason)}
	}
	for _, step := range r.Steps {
		c := testCase{Name: fmt.Sprintf("%d %s", step.Number, printable(step.Title)), Class: r.Scenario, Time: seconds(step.Took), Out: printable(step.Did)}
		why := step.Error
		if u := step.Unmet; u != nil {
			why = strings.Join(append([]string{"expected " + u.Expected, "last seen " + lastSeen(u)}, u.Notes...), "\n")
		}
		for _, e := range step.Evidence {
			why += "\n\n" + titleOf(e) + "\n" + strings.Join(e.Lines, "\n")
		}
		s.Cases = append(s.Cases, outcome(c, step.Verdict, why))
	}
	for _, c := range s.Cases {
		s.Tests++
		switch {
		case c.Failure != nil:
			s.Failures++
		case c.Error != nil:
			s.Errors++
		case c.Skipped != nil:
			s.Skipped++
		}
	}
	return s
}

func outcome(c testCase, v scenario.Verdict, why string) testCase {
	first, _, _ := strings.Cut(why, "\n")
	r := &reason{Message: printable(first), Type: string(v), Text: printable(why)}
	switch v {
	case scenario.Passed:
	case scenario.Failed:
		c.Failure = r
	case scenario.Skipped, scenario.NotPlayed:
		if r.Message == "" {
			r.Message = string(v)
		}
		c.Skipped = r
	default:
		c.Error = r
	}
	return c
}

func lastSeen(u *scenario.Unmet) string {
	s := u.LastSeen
	if u.Unchanged >= time.Second {
		s += ", unchanged for " + lab.Duration(u.Unchanged)
	}
	return s
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// printable drops control characters, which XML cannot hold.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) && r != unicode.ReplacementChar {
			return r
		}
		return -1
	}, s)
}
