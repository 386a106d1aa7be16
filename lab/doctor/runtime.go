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

// trimmedRuntime is the runtime, with @RUNC@ where the program stands that it wraps.
//
// It is a shell script, and this was weighed. It runs for every container and for every `docker exec`, and kind makes hundreds of those, so its start-up
// counts: measured over 100 starts, on a config.json of 6 KB, script with sed 4.0 ms, a small Go program 1.6 ms, a Python one 19.7 ms. The Go program would
// have to be compiled on the host, which may have no compiler, or be a copy of lab itself, of about 100 MB; docker's client, of 43 MB, takes 29 ms. Its weakness, editing
// JSON by pattern, is bounded: Docker and containerd write it with encoding/json, and TestTrimmedRuntime holds what must and must not be touched.
//
//go:embed lab-runc.sh
var trimmedRuntime string

// backupSuffix names the copy of daemon.json as it was before lab first changed it.
const backupSuffix = ".before-lab"

// fixRuntime registers the trimmed runtime as the engine's default and makes the engine read it. An engine that does not take it gets its old
// configuration back, since with a bad one it would not start again.
func (d *Doctor) fixRuntime(ctx context.Context, say func(string)) error {
	host := d.o.Host
	pid, ok := host.dockerd()
	if !ok {
		return &lab.Error{
			Exit: lab.ExitFailed, Code: "not_cured", Message: "no dockerd has its process id in " + host.PIDFile,
			Cure: "this engine is kept by other means: register a runtime there that drops CAP_SYS_RESOURCE",
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
			Exit: lab.ExitFailed, Code: "not_cured", Message: file + " was left as it is", Err: err, Cure: "mend it by hand, then lab doctor --fix",
		}
	}
	script := []byte(strings.ReplaceAll(trimmedRuntime, "@RUNC@", shellQuote(wrapped)))
	if current, err := os.ReadFile(host.Runtime); err != nil || !bytes.Equal(current, script) || !executable(host.Runtime) {
		say("writing " + host.Runtime + ", which runs " + wrapped + " without CAP_SYS_RESOURCE")
		if err := writeAtomic(host.Runtime, script, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(host.Runtime, 0o755); err != nil { // a file that was there kept its mode
			return err
		}
	}
	if !bytes.Equal(merged, old) {
		text := "registering it in " + file
		if existed {
			backup := file + backupSuffix
			text += ", which keeps all it held; as it was: " + backup
			say(text)
			if err := writeAtomic(backup, old, 0o644); err != nil {
				return err
			}
		} else {
			say(text)
		}
		if err := writeAtomic(file, merged, 0o644); err != nil {
			return err
		}
	}
	say("making docker read it: SIGHUP to process " + strconv.Itoa(pid))
	err = d.reloadInto(ctx, pid, runtimeName)
	if err == nil || bytes.Equal(merged, old) {
		return err
	}
	say("docker did not take it: putting " + file + " back")
	if existed {
		return errors.Join(err, writeAtomic(file, old, 0o644))
	}
	return errors.Join(err, os.Remove(file))
}

// plan returns daemon.json as it should be, and the program that the trimmed runtime must wrap. Where the trimmed runtime is the default already, that
// program is told by the copy of daemon.json from before.
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

// reloadInto makes the engine read its configuration and waits until its default runtime is the wanted one.
func (d *Doctor) reloadInto(ctx context.Context, pid int, want string) error {
	if err := d.o.Host.Reload(pid); err != nil {
		return err
	}
	return await(ctx, reloadPatience, func(ctx context.Context) error {
		info, err := d.o.Docker.Info(ctx)
		if err == nil && info.DefaultRuntime != want {
			err = fmt.Errorf("the default runtime is still %s (its log tells why; a flag of dockerd may forbid it)", info.DefaultRuntime)
		}
		return err
	})
}

// configFile is the configuration that a running dockerd reads.
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
