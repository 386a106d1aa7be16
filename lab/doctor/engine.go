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
	// Timeout of dockerd's start: the first one creates folders and a network
	startTimeout = 60 * time.Second
	// Timeout of a reload, which takes milliseconds or fails
	reloadTimeout = 10 * time.Second
	// Polling interval: there is nothing to watch before the engine runs
	pollEvery = 100 * time.Millisecond
)

// fixEngine installs Debian's engine, if missing, and starts it.
func (d *Doctor) fixEngine(ctx context.Context, progress func(string)) error {
	var packages []string
	for program, pkg := range map[string]string{"dockerd": "docker.io", "docker": "docker-cli"} {
		if _, err := d.o.Host.LookPath(program); err == nil {
			continue
		}
		// Up to Debian 12 docker.io includes the client; since 13 it is a recommended package. Only the lists show which.
		if pkg == "docker-cli" {
			if _, err := d.lists(ctx, progress); err != nil {
				return err
			}
			if !d.hasPackage(ctx, pkg) {
				pkg = "docker.io"
			}
		}
		packages = append(packages, pkg)
	}
	if err := d.install(ctx, progress, packages); err != nil {
		return err
	}
	if d.answers(ctx) == nil { // under systemd, installing starts it
		return nil
	}
	if d.o.Host.systemd() {
		progress("starting docker with systemctl")
		if err := d.o.Host.note(change{Kind: changedProcess, What: "docker.service"}); err != nil {
			return err
		}
		if _, err := d.o.Host.Run(ctx, nil, "systemctl", "start", "docker"); err != nil {
			return fmt.Errorf("%w (see journalctl -u docker)", err)
		}
		return await(ctx, startTimeout, d.answers)
	}
	if err := d.clearPIDFile(progress); err != nil {
		return err
	}
	progress("starting dockerd, which logs to " + d.o.Host.Log)
	if err := d.o.Host.note(change{Kind: changedProcess, What: "dockerd"}); err != nil {
		return err
	}
	err := d.startDockerd(ctx)
	if early := (final{}); errors.As(err, &early) {
		// A killed dockerd leaves containerd's pid file. If another process has that pid now, the next dockerd times
		// out waiting for it, removes the file and exits (seen with 20.10). The one after that starts.
		progress("dockerd exited: retrying")
		err = d.startDockerd(ctx)
	}
	return err
}

// clearPIDFile removes the pid file of a killed dockerd: a new one refuses to start while the pid is, or recently was,
// in use.
func (d *Doctor) clearPIDFile(progress func(string)) error {
	if _, err := os.Stat(d.o.Host.PIDFile); err != nil {
		return nil
	}
	if _, lives := d.o.Host.dockerd(); lives {
		return nil
	}
	progress("removing " + d.o.Host.PIDFile + ", left by a killed dockerd")
	return os.Remove(d.o.Host.PIDFile)
}

// hasPackage reports whether Debian's local package lists have a package.
func (d *Doctor) hasPackage(ctx context.Context, pkg string) bool {
	out, err := d.o.Host.Run(ctx, nil, "apt-cache", "pkgnames", pkg)
	return err == nil && len(out) > 0
}

// answers returns an error if the engine does not answer.
func (d *Doctor) answers(ctx context.Context) error {
	info, err := d.o.Docker.Info(ctx)
	if err == nil && info.ServerVersion == "" {
		err = errors.New("no engine answers")
	}
	return err
}

// startDockerd starts dockerd in its own session, so that it survives lab.
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
	// Containers inherit dockerd's limit of open files. A service has far more than a shell's 1024, so raise it to the
	// maximum.
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
	err = await(ctx, startTimeout, func(ctx context.Context) error {
		err := d.answers(ctx)
		select {
		case end := <-ended:
			// Debian's init script may have started one during the installation. They exclude each other by pid file:
			// wait for that one.
			if _, other := d.o.Host.dockerd(); err == nil || other {
				return err
			}
			return final{fmt.Errorf("dockerd exited: %w", cmp.Or(end, errors.New("exit status 0")))}
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

// final is a permanent error.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// await retries until the limit and returns the last error.
func await(ctx context.Context, limit time.Duration, ask func(context.Context) error) error {
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
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
