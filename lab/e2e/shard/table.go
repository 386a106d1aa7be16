package shard

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strings"
)

// Enter returns the document with the last passed result of each test in its row. The results are of a machine of that pace: its seconds per second of the table's.
func Enter(document string, results []Result, pace float64) string {
	passed := map[string]Result{}
	for _, r := range results {
		if r.Verdict == Passed {
			passed[r.Name] = r
		}
	}
	var b strings.Builder
	for line := range strings.Lines(document) {
		if tests, err := Read(strings.NewReader(line)); err == nil && len(tests) == 1 {
			t := tests[0]
			if r, ok := passed[t.Name]; ok {
				t.Seconds, t.Date, t.Commit = int(math.Round(float64(r.Seconds)/pace)), r.Date, r.Commit
			}
			line = t.row()
		}
		b.WriteString(line)
	}
	return b.String()
}

func (t Test) row() string {
	return fmt.Sprintf("| `%s` | %s | %d | %s | %s |\n", t.Name, t.When, t.Seconds, t.Date, t.Commit)
}

// Chosen reads the file that the plan command wrote: the reason for each chosen test by name, and the number of the run.
func Chosen(file string) (why map[string]string, run int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	why = map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if _, err := fmt.Sscanf(lines.Text(), "# run %d:", &run); err == nil {
			continue
		}
		if c := strings.Split(lines.Text(), "\t"); len(c) == 3 {
			why[c[0]] = c[1]
		}
	}
	return why, run, lines.Err()
}
