package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	// startPatience is how long a dockerd that was started may take to answer: on its first start it makes its folders and its network.
	startPatience = 60 * time.Second
	// reloadPatience is how long it may take to read its configuration again; it does so in milliseconds, or not at all.
	reloadPatience = 10 * time.Second
	// glance is how often a change outside of this process is looked for; the engine has no watch that could be opened before it runs.
	glance = 100 * time.Millisecond
)

// fixEngine installs Debian's engine where there is none, and starts it where none runs.
func (d *Doctor) fixEngine(ctx context.Context, say func(string)) error {
	var packages []string
	for program, pkg := range map[string]string{"dockerd": "docker.io", "docker": "docker-cli"} {
		if _, err := d.o.Host.LookPath(program); err == nil {
			continue
		}
		// Until Debian 12 docker.io holds the client; since 13 it is a package of its own, and only recommended.
		if pkg == "docker-cli" && !d.hasPackage(ctx, pkg) {
			pkg = "docker.io"
		}
		packages = append(packages, pkg)
	}
	if err := d.install(ctx, say, packages); err != nil {
		return err
	}
	if d.answers(ctx) == nil { // installing it starts it, where systemd runs
		return nil
	}
	if d.o.Host.systemd() {
		say("starting docker with systemctl")
		if _, err := d.o.Host.Run(ctx, nil, "systemctl", "start", "docker"); err != nil {
			return fmt.Errorf("%w (journalctl -u docker tells more)", err)
		}
		return await(ctx, startPatience, d.answers)
	}
	if err := d.clearPIDFile(say); err != nil {
		return err
	}
	say("starting dockerd, which writes to " + d.o.Host.Log)
	err := d.startDockerd(ctx)
	if early := (final{}); errors.As(err, &early) {
		// A dockerd that was killed leaves the process id of its containerd behind; where another process has that number now, the next dockerd waits for
		// it in vain, clears it away and ends (seen with 20.10). The one after that starts.
		say("dockerd ended: once more")
		err = d.startDockerd(ctx)
	}
	return err
}

// clearPIDFile removes the pid file of a dockerd that was killed: a new one refuses to start while a process has that number, or had it a moment ago.
func (d *Doctor) clearPIDFile(say func(string)) error {
	if _, err := os.Stat(d.o.Host.PIDFile); err != nil {
		return nil
	}
	if _, lives := d.o.Host.dockerd(); lives {
		return nil
	}
	say("removing " + d.o.Host.PIDFile + ", which a dockerd that was killed left behind")
	return os.Remove(d.o.Host.PIDFile)
}

// hasPackage reports whether Debian's lists, as far as they are here, know a package.
func (d *Doctor) hasPackage(ctx context.Context, pkg string) bool {
	out, err := d.o.Host.Run(ctx, nil, "apt-cache", "pkgnames", pkg)
	return err == nil && len(out) > 0
}

// answers is nil when the engine does.
func (d *Doctor) answers(ctx context.Context) error {
	info, err := d.o.Docker.Info(ctx)
	if err == nil && info.ServerVersion == "" {
		err = errors.New("no engine answers")
	}
	return err
}

// startDockerd starts the engine by hand, in a session of its own, so that it lives on when lab ends or is interrupted.
func (d *Doctor) startDockerd(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(d.o.Host.Log), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(d.o.Host.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	defer log.Close()
	path, err := d.o.Host.LookPath(d.o.Host.Dockerd[0])
	if err != nil {
		return err
	}
	// What containers get of the limit on open files is what dockerd has; a service gets far more than a shell's 1024, so it gets all it may have.
	raise := `ulimit -n "$(ulimit -Hn)" 2>/dev/null; exec "$@"`
	cmd := exec.Command("/bin/sh", append([]string{"-c", raise, "sh", path}, d.o.Host.Dockerd[1:]...)...)
	cmd.Env = withSbin(nil)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = await(ctx, startPatience, func(ctx context.Context) error {
		err := d.answers(ctx)
		select {
		case end := <-ended:
			// Debian's init script may have started one as it was installed, and two do not share a pid file: then that one is waited for.
			if _, other := d.o.Host.dockerd(); err == nil || other {
				return err
			}
			return final{fmt.Errorf("dockerd ended at once: %w", cmp.Or(end, errors.New("exit status 0")))}
		default:
			return err
		}
	})
	if err != nil {
		out, _ := os.ReadFile(d.o.Host.Log)
		return fmt.Errorf("%w; %s ends with: %s", err, d.o.Host.Log, lastLines(out, 5))
	}
	return nil
}

// final is an error that further waiting does not cure.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// await asks until the answer is nil; when time is up it tells the last one.
func await(ctx context.Context, limit time.Duration, ask func(context.Context) error) error {
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(glance)
	defer ticker.Stop()
	for {
		err := ask(waiting)
		if err == nil {
			return nil
		}
		if stop := (final{}); errors.As(err, &stop) {
			return err
		}
		select {
		case <-ticker.C:
		case <-waiting.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("not within %s: %w", limit, err)
		}
	}
}
