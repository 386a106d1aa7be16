package doctor

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
)

// trimmedRuntime is the runtime; @RUNC@ is the path of the wrapped program.
//
// It runs for every container and every `docker exec`, of which Kind makes hundreds, so its start-up counts: measured
// over 100 starts with a config.json of 6 KB, a script with sed takes 4.0 ms, a small Go program 1.6 ms, a Python one
// 19.7 ms. A Go program would have to be compiled on the host, which may have no compiler, or be a copy of lab, of
// about 100 MB; docker's client, of 43 MB, takes 29 ms. Editing JSON by pattern is safe enough: Docker and containerd
// write it with encoding/json, and TestTrimmedRuntime covers what must and must not be changed.
//
//go:embed lab-runc.sh
var trimmedRuntime string

// dockerWrapper is the docker command that uses the trimmed runtime; @DIR@ is its folder.
//
//go:embed lab-docker.sh
var dockerWrapper string

// fixRuntime registers the trimmed runtime with the engine, for lab's containers alone, and reloads the engine. If that fails, the old configuration is
// restored, since the engine would not start with a bad one.
func (d *Doctor) fixRuntime(ctx context.Context, progress func(string)) error {
	host := d.o.Host
	pid, ok := host.dockerd()
	if !ok {
		return &lab.Error{
			Exit: lab.ExitFailed, Code: "not_cured", Message: "no running dockerd in " + host.PIDFile,
			Cure: "register a runtime that drops CAP_SYS_RESOURCE in its configuration",
		}
	}
	file := host.configFile(pid)
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	existed := err == nil
	merged, wrapped, err := host.plan(file, old)
	if err != nil {
		return &lab.Error{
			Exit: lab.ExitFailed, Code: "not_cured", Message: file + " was not changed", Err: err, Cure: "repair it, then lab doctor --fix",
		}
	}
	progress("writing " + host.Runtime + ", which runs " + wrapped + " without CAP_SYS_RESOURCE")
	script := strings.ReplaceAll(trimmedRuntime, "@RUNC@", shellQuote(wrapped))
	if err := host.replace(changedFile, host.Runtime, []byte(script), 0o755); err != nil {
		return err
	}
	script = strings.ReplaceAll(dockerWrapper, "@DIR@", shellQuote(filepath.Dir(host.Wrapper)))
	if err := host.replace(changedFile, host.Wrapper, []byte(script), 0o755); err != nil {
		return err
	}
	if !bytes.Equal(merged, old) {
		text := "registering it in " + file + ", not as the default"
		if existed {
			name, err := backup(file, old)
			if err != nil {
				return err
			}
			text += "; backup: " + name
		}
		progress(text)
		if err := host.replace(changedEngine, file, merged, 0o644); err != nil {
			return err
		}
	}
	progress("reloading docker: SIGHUP to process " + strconv.Itoa(pid))
	err = d.reloadUntil(ctx, pid, reloadTimeout, func(info docker.Info) error {
		if _, ok := info.Runtimes[runtimeName]; !ok {
			return errors.New("it does not have the runtime " + runtimeName + " (see its log; a flag of dockerd may forbid it)")
		}
		return nil
	})
	if err == nil || bytes.Equal(merged, old) {
		return err
	}
	progress("docker rejected it: restoring " + file)
	if existed {
		return errors.Join(err, writeAtomic(file, old, 0o644))
	}
	return errors.Join(err, os.Remove(file))
}

// plan returns the new daemon.json and the program to wrap. Versions up to 0.1 made the trimmed runtime the default: then the program is taken from a backup.
func (h Host) plan(file string, old []byte) (merged []byte, wrapped string, err error) {
	config, err := parseDaemonConfig(old)
	if err != nil {
		return nil, "", err
	}
	before := config
	if config.defaultRuntime() == runtimeName {
		before = daemonConfig{}
		for _, name := range backups(file) {
			data, _ := os.ReadFile(name)
			if was, err := parseDaemonConfig(data); err == nil && was.defaultRuntime() != runtimeName {
				before = was
				break
			}
		}
	}
	program, args, err := before.program()
	if err != nil {
		return nil, "", err
	}
	merged, err = config.with(runtimeName, h.Runtime, args)
	if err == nil && sameJSON(merged, old) {
		merged = old
	}
	return merged, program, err
}

// reloadUntil reloads the engine and waits until it is as wanted.
func (d *Doctor) reloadUntil(ctx context.Context, pid int, limit time.Duration, wanted func(docker.Info) error) error {
	if err := d.o.Host.Reload(pid); err != nil {
		return err
	}
	return await(ctx, limit, func(ctx context.Context) error {
		info, err := d.o.Docker.Info(ctx)
		if err == nil {
			err = wanted(info)
		}
		return err
	})
}

// configFile returns the configuration file of a running dockerd.
func (h Host) configFile(pid int) string {
	data, _ := os.ReadFile(filepath.Join(h.Proc, strconv.Itoa(pid), "cmdline"))
	args := strings.Split(string(data), "\x00")
	for i, arg := range args {
		if file, ok := strings.CutPrefix(arg, "--config-file="); ok {
			return file
		}
		if arg == "--config-file" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return h.DaemonJSON
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
