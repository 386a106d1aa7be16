// Command plan prints the tests of the next CI run and writes them to a file, for the end-to-end tests and .ci/stages.
//
//	plan [-shard K] FILE    choose the tests of a run; K instead of the one whose turn it is
//	plan -table [-pace P]   enter the last results, of a machine of that pace, into the table
//	plan -waiting           print the names on the standard input, those first that failed or have waited longest
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"homelab/lab/e2e/shard"
)

const table = "docs/tests.md"

func main() {
	which := flag.Int("shard", -1, "number of the `shard`")
	enter := flag.Bool("table", false, "enter the last results into "+table)
	pace := flag.Float64("pace", 1, "seconds of this machine per `second` of the table")
	waiting := flag.Bool("waiting", false, "print the names on the standard input, those first that failed or have waited longest")
	flag.Parse()
	if *pace <= 0 {
		fmt.Fprintln(os.Stderr, "plan: -pace must be above 0")
		os.Exit(2)
	}
	if *waiting {
		if err := wait(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "plan:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(*which, *enter, *pace, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "plan:", err)
		os.Exit(1)
	}
}

func recorded() ([]shard.Result, error) {
	from, err := shard.ResultsFile()
	if err != nil {
		return nil, err
	}
	return shard.Results(from)
}

func wait(in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	results, err := recorded()
	if err != nil {
		return err
	}
	for _, name := range shard.Waiting(results, strings.Split(strings.TrimSpace(string(text)), "\n")) {
		fmt.Fprintln(out, name)
	}
	return nil
}

func run(which int, enter bool, pace float64, file string) error {
	text, err := os.ReadFile(table)
	if err != nil {
		return err
	}
	tests, err := shard.Read(strings.NewReader(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", table, err)
	}
	results, err := recorded()
	if err != nil {
		return err
	}
	if enter {
		return os.WriteFile(table, []byte(shard.Enter(string(text), results, pace)), 0o644)
	}
	_, last := shard.Last(results)
	number := last + 1
	if last == 0 { // so that new machines do not all begin with the same shard
		number = int(time.Now().Unix() / 3600)
	}
	turn := number
	var first []string
	if which >= 0 {
		turn = which
	} else {
		first = shard.First(results)
	}
	p := shard.Choose(tests, first, turn)
	if which >= p.Shards {
		return fmt.Errorf("there are %d shards, from 0", p.Shards)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# run %d: shard %d of %d, %d of %d tests\n", number, p.Shard, p.Shards, len(p.Tests), len(tests))
	for _, t := range p.Tests {
		fmt.Fprintf(&b, "%s\t%s\t%d\n", t.Name, p.Why[t.Name], t.Seconds)
	}
	for i, s := range shard.Shards(tests, shard.Size) {
		fmt.Printf("shard %d: %3d tests, %4d s, from %s\n", i, len(s), shard.Cost(tests, s), s[0].Name)
	}
	fmt.Printf("run %d: shard %d of %d, %d of %d tests, %d s on the machine of %s; did not pass last time: %d\n",
		number, p.Shard, p.Shards, len(p.Tests), len(tests), p.Seconds(), table, len(first))
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
