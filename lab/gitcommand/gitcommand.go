// Package gitcommand runs the git command line.
package gitcommand

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Command is a run of git with the user's own settings.
type Command struct {
	Dir    string // empty for none
	Limit  time.Duration
	Env    []string // in addition to the process's
	Config []string // "key=value"
	Stdin  []byte
}

// Run returns git's output without the trailing newline. An error contains git's own message.
func (c Command) Run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Limit, fmt.Errorf("git %s took longer than %s", args[0], c.Limit))
	defer cancel()
	var all []string
	if c.Dir != "" {
		all = append(all, "-C", c.Dir)
	}
	for _, setting := range c.Config {
		all = append(all, "-c", setting)
	}
	cmd := exec.CommandContext(ctx, "git", append(all, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { // drop those of a hook that lab may run in
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains([]string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"}, name)
	})
	cmd.Env = append(append(cmd.Env, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C"), c.Env...)
	cmd.Stdin = bytes.NewReader(c.Stdin)
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	switch message := strings.TrimSpace(stderr.String()); {
	case err == nil:
		return strings.TrimSuffix(string(out), "\n"), nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case message != "": // the first fatal line, else the first
		_, fatal, ok := strings.Cut("\n"+message, "\nfatal: ")
		if !ok {
			fatal = message
		}
		line, _, _ := strings.Cut(fatal, "\n")
		err = errors.New(line)
	}
	return "", fmt.Errorf("git %s: %w", args[0], err)
}
