package docker

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"homelab/lab"
)

// Output runs docker and returns its stdout. stdin may be nil. Cancelling ctx kills the client. The container of a `run --rm` is removed first.
func (d *Docker) Output(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := d.Run(ctx, stdin, &out, args...)
	return out.Bytes(), err
}

// Run is like Output but streams stdout.
func (d *Docker) Run(ctx context.Context, stdin io.Reader, stdout io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, d.programOf(args), args...)
	cmd.Stdin = stdin
	cmd.Stdout = stdout
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = 5 * time.Second
	var left error // a container that was not removed
	if len(args) > 2 && args[0] == "run" && args[1] == "--rm" {
		mark := labelRun + "=" + rand.Text()
		cmd.Args = slices.Insert(cmd.Args, 3, "--label", mark)
		cmd.Cancel = func() error {
			left = d.end(cmd.Process, mark)
			return cmd.Process.Kill()
		}
	}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		err = &Error{Args: args, Stderr: strings.TrimSpace(stderr.String()), Err: err}
		if left != nil {
			err = errors.Join(err, left)
		}
		return err
	}
	return nil
}

const (
	labelRun = "lab.homelab/run" // of one run
	endLimit = 20 * time.Second  // to end a container; the engine itself waits 10 s for a killed one
	endPause = 50 * time.Millisecond
)

// end removes the container of a client before that is cancelled, and waits until both have exited. If the client was killed, its container would keep running, and
// use volumes that the caller is about to remove; one that the client has just asked for would be created afterwards.
func (d *Docker) end(client *os.Process, mark string) error {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(d.patience, endLimit))
	defer cancel()
	var ids []string
	for {
		done := client.Signal(syscall.Signal(0)) != nil // before the look: from here on, it creates nothing
		out, err := d.Output(ctx, nil, "ps", "--all", "--quiet", "--filter", "label="+mark)
		if err == nil {
			ids = strings.Fields(string(out))
		}
		switch {
		case len(ids) > 0:
			_, err = d.Output(ctx, nil, append([]string{"rm", "--force", "--volumes"}, ids...)...)
		case done:
			return err
		}
		if lab.Sleep(ctx, endPause) == nil {
			continue
		}
		if len(ids) == 0 {
			return err // nil while it pulls an image, which ends with the client
		}
		return &lab.Error{
			Exit: lab.ExitFailed, Code: "helper", Message: "container " + ids[0] + ", which lab started, does not end", Cure: lab.Quote(append([]string{"docker", "rm", "--force"}, ids...)...), Err: err,
		}
	}
}
