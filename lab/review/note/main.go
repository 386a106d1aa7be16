// Command note puts what lab diff and lab lint found into one comment of a pull request on GitHub or of a merge request on GitLab, and keeps it up to date. Its environment is
// that of .github/actions/review/review. Where the token may not write, as in forks, the text is in the job's summary or in FOLDER/review.md alone.
//
//	note FOLDER    with diff.md, diff.err, lint.sarif and lint.err
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"homelab/lab/review"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: note FOLDER")
		os.Exit(2)
	}
	said, err := review.Post(ctx, os.Args[1], os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "note:", err)
		os.Exit(1)
	}
	fmt.Println(said)
}
