// Command pins lists the versions that the repository pins, with the newest that is served and the end of upstream's support, and changes one everywhere.
//
//	pins [-o json] [-fail]    list all pins: `task outdated`
//	pins set NAME VERSION     change one: `task pin`
//
// Exit codes: 0 done, 1 failed or, with -fail, something is out of support, 2 usage or an invalid file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"homelab/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c := command{root: ".", out: os.Stdout, asker: asker{patience: 20 * time.Second, github: "https://github.com/"}, now: time.Now()}
	err := c.run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", message(err))
	}
	os.Exit(int(exit(err)))
}

// message returns an error with the problems that it names.
func message(err error) string {
	if labErr := (*lab.Error)(nil); errors.As(err, &labErr) && len(labErr.Problems) > 0 {
		return labErr.Problems.Error() + "\n" + labErr.Error()
	}
	return fmt.Sprint(err)
}

// exit returns the exit code of an error.
func exit(err error) lab.Exit {
	var labErr *lab.Error
	var problems lab.Problems
	switch {
	case err == nil:
		return lab.ExitDone
	case errors.As(err, &labErr):
		return labErr.Exit
	case errors.As(err, &problems):
		return lab.ExitInvalid
	}
	return lab.ExitFailed
}

type command struct {
	root  string // of the repository
	out   io.Writer
	asker asker
	now   time.Time
}

func (c command) run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "set" {
		if len(args) != 3 {
			return usage("set takes NAME and VERSION", "as in `task pin -- gitea 1.27.4`")
		}
		return c.set(ctx, args[1], args[2])
	}
	flags := flag.NewFlagSet("pins", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	format := flags.String("o", "text", "`text` or json")
	fail := flags.Bool("fail", false, "exit 1 if upstream no longer supports a pin")
	if err := flags.Parse(args); err != nil {
		return usage(err.Error(), "use -o json, -fail, or set NAME VERSION")
	}
	if flags.NArg() > 0 || *format != "text" && *format != "json" {
		return usage("pins takes no such arguments", "use -o json, -fail, or set NAME VERSION")
	}
	pins, err := find(os.DirFS(c.root))
	if err != nil {
		return err
	}
	list, err := rows(pins, c.asker.all(ctx, pins), c.now)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &lab.Error{Exit: lab.ExitInterrupted, Code: "interrupted", Message: "interrupted"}
	}
	printed := printTable
	if *format == "json" {
		printed = printJSON
	}
	if err := printed(c.out, list); err != nil {
		return err
	}
	ended := 0
	for _, r := range list {
		if r.Ended {
			ended++
		}
	}
	if *fail && ended > 0 {
		return &lab.Error{Exit: lab.ExitFailed, Code: "ended", Message: fmt.Sprintf("%d pins are out of support", ended), Cure: "change them with `task pin -- NAME VERSION`"}
	}
	return nil
}

func usage(message, cure string) error {
	return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: message, Cure: cure}
}
