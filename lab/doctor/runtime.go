package doctor

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"homelab/lab"
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

// backupSuffix is the suffix of the copy of daemon.json before lab's first change.
const backupSuffix = ".before-lab"

// fixRuntime registers the trimmed runtime as the engine's default and reloads the engine. If that fails, the old
// configuration is restored, since the engine would not start with a bad one.
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
	script := []byte(strings.ReplaceAll(trimmedRuntime, "@RUNC@", shellQuote(wrapped)))
	if current, err := os.ReadFile(host.Runtime); err != nil || !bytes.Equal(current, script) || !executable(host.Runtime) {
		progress("writing " + host.Runtime + ", which runs " + wrapped + " without CAP_SYS_RESOURCE")
		if err := writeAtomic(host.Runtime, script, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(host.Runtime, 0o755); err != nil { // an existing file kept its mode
			return err
		}
	}
	if !bytes.Equal(merged, old) {
		text := "registering it in " + file
		if existed {
			backup := file + backupSuffix
			text += ", which keeps its other settings; backup: " + backup
			progress(text)
			if err := writeAtomic(backup, old, 0o644); err != nil {
				return err
			}
		} else {
			progress(text)
		}
		if err := writeAtomic(file, merged, 0o644); err != nil {
			return err
		}
	}
	progress("reloading docker: SIGHUP to process " + strconv.Itoa(pid))
	err = d.reloadInto(ctx, pid, runtimeName)
	if err == nil || bytes.Equal(merged, old) {
		return err
	}
	progress("docker rejected it: restoring " + file)
	if existed {
		return errors.Join(err, writeAtomic(file, old, 0o644))
	}
	return errors.Join(err, os.Remove(file))
}

// plan returns the new daemon.json and the program to wrap. If the trimmed runtime already is the default, the program
// is taken from the backup.
func (h Host) plan(file string, old []byte) (merged []byte, wrapped string, err error) {
	config, err := parseDaemonConfig(old)
	if err != nil {
		return nil, "", err
	}
	before := config
	if config.defaultRuntime() == runtimeName {
		backup, _ := os.ReadFile(file + backupSuffix)
		if before, err = parseDaemonConfig(backup); err != nil || before.defaultRuntime() == runtimeName {
			before = daemonConfig{}
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

// reloadInto reloads the engine and waits until its default runtime is want.
func (d *Doctor) reloadInto(ctx context.Context, pid int, want string) error {
	if err := d.o.Host.Reload(pid); err != nil {
		return err
	}
	return await(ctx, reloadTimeout, func(ctx context.Context) error {
		info, err := d.o.Docker.Info(ctx)
		if err == nil && info.DefaultRuntime != want {
			err = fmt.Errorf("the default runtime is still %s (see its log; a flag of dockerd may forbid it)", info.DefaultRuntime)
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
