// Package state keeps what a lab must remember between runs: one folder for each lab, readable by its owner alone.
package state

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/crypto/bcrypt"

	"homelab/lab"
)

// Dir is the folder of one lab. Nothing is created before Create.
type Dir struct {
	Lab  string
	Path string
}

// Root is the folder that holds every lab's: $XDG_STATE_HOME/lab, or ~/.local/state/lab.
func Root() (string, error) { return xdg("XDG_STATE_HOME", ".local/state") }

// CacheRoot is the folder for what can be made again: $XDG_CACHE_HOME/lab, or ~/.cache/lab.
func CacheRoot() (string, error) { return xdg("XDG_CACHE_HOME", ".cache") }

func xdg(env, fallback string) (string, error) {
	if dir := os.Getenv(env); filepath.IsAbs(dir) { // the XDG specification: relative paths are to be ignored
		return filepath.Join(dir, "lab"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", &lab.Error{Exit: lab.ExitFailed, Code: "no_home", Message: "no folder for lab's files", Cure: "set " + env, Err: err}
	}
	return filepath.Join(home, fallback, "lab"), nil
}

// Open names the folder of a lab without making it.
func Open(labName string) (*Dir, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	return &Dir{Lab: labName, Path: filepath.Join(root, labName)}, nil
}

// List returns the names of the labs that have a folder.
func List() ([]string, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("labs: %w", err)
	}
	var names []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(root, e.Name(), recordFile)); err == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Exists reports whether the lab was ever brought up here and not taken down since.
func (d *Dir) Exists() bool {
	_, err := os.Stat(filepath.Join(d.Path, recordFile))
	return err == nil
}

// Kubeconfigs is the folder of the lab's kubeconfig files.
func (d *Dir) Kubeconfigs() string { return filepath.Join(d.Path, kubeconfigsDir) }

const (
	kubeconfigsDir  = "kubeconfigs"
	recordFile      = "lab.json"
	credentialsFile = "credentials.json"
)

// Record is what a lab remembers of itself.
type Record struct {
	Lab       string         `json:"lab"`
	Estate    string         `json:"estate"` // absolute path; empty for the embedded estate
	Engine    lab.EngineType `json:"engine"`
	Images    string         `json:"images"`              // where images come from, as asked for
	Namespace string         `json:"namespace,omitempty"` // of the engine; empty for its usual one
	Ports     Ports          `json:"ports"`
}

// Ports are the ports on 127.0.0.1 that a lab took when it was first made.
type Ports struct {
	Engine int `json:"argocd"`
	Forge  int `json:"forge"`
}

// Credentials are random, made once for each lab, and never printed but on request.
type Credentials struct {
	ForgeUser      string    `json:"forgeUser"`
	ForgePassword  string    `json:"forgePassword"`
	EngineUser     string    `json:"argocdUser"`
	EnginePassword string    `json:"argocdPassword"`
	EngineHash     string    `json:"argocdHash"` // bcrypt, kept so that Helm values do not change from run to run
	EngineSince    time.Time `json:"argocdSince"`
	WebhookSecret  string    `json:"webhookSecret"`
}

// Create makes the folder.
func (d *Dir) Create() error {
	if err := os.MkdirAll(d.Kubeconfigs(), 0o700); err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	return nil
}

// Load reads the record; a lab that has none yet gets an empty one.
func (d *Dir) Load() (Record, error) {
	var r Record
	err := d.read(recordFile, &r)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{Lab: d.Lab}, nil
	}
	return r, err
}

// Save writes the record.
func (d *Dir) Save(r Record) error { return d.write(recordFile, r) }

// Credentials reads the lab's credentials, making them the first time.
func (d *Dir) Credentials() (Credentials, error) {
	var c Credentials
	err := d.read(credentialsFile, &c)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	c = Credentials{ForgeUser: "lab", EngineUser: "admin", EngineSince: time.Now().UTC().Truncate(time.Second)}
	for _, s := range []*string{&c.ForgePassword, &c.EnginePassword, &c.WebhookSecret} {
		*s = password()
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(c.EnginePassword), bcrypt.DefaultCost)
	if err != nil {
		return c, fmt.Errorf("hash a password: %w", err)
	}
	c.EngineHash = string(hash)
	return c, d.write(credentialsFile, c)
}

// password is 24 letters and digits, about 142 bits.
func password() string {
	const set = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, 24)
	for i := range b {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(set))))
		if err != nil {
			panic(err) // crypto/rand does not fail on a working kernel; a weak password would be worse
		}
		b[i] = set[n.Int64()]
	}
	return string(b)
}

// Remove deletes the folder and what it holds. The lock file goes with it.
func (d *Dir) Remove() error {
	if err := os.RemoveAll(d.Path); err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	// the folder above goes too when this was the last lab; it is not an error that it still holds others
	_ = os.Remove(filepath.Dir(d.Path))
	return nil
}

// Lock lets one lab command at a time change this lab. The kernel frees it when the process ends, however that happens.
func (d *Dir) Lock(ctx context.Context) (unlock func(), err error) {
	if err := d.Create(); err != nil {
		return nil, err
	}
	file := filepath.Join(d.Path, "lock")
	l := flock.New(file, flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ok, err := l.TryLockContext(ctx, 100*time.Millisecond)
	if ok {
		_ = os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0o600) // tells the next one who holds it; only a hint
		return func() { _ = l.Unlock() }, nil
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("lock: %w", err)
	}
	holder, _ := os.ReadFile(file)
	return nil, &lab.Error{
		Exit: lab.ExitFailed, Code: "locked", Message: fmt.Sprintf("lab %s is being changed by another lab command (process %s)", d.Lab, strings.TrimSpace(string(holder))),
		Cure: "wait until it ends, or end it",
	}
}

// CodeGarbled is the code of the error that a state file is there and is no valid document.
const CodeGarbled = "garbled"

// SetAside renames the state files that cannot be read to NAME.garbled, and returns their new paths. What they held is made or found again by lab up.
func (d *Dir) SetAside() ([]string, error) {
	var aside []string
	for name, into := range map[string]any{recordFile: &Record{}, credentialsFile: &Credentials{}} {
		var e *lab.Error
		if err := d.read(name, into); !errors.As(err, &e) || e.Code != CodeGarbled {
			continue
		}
		file := filepath.Join(d.Path, name)
		if err := os.Rename(file, file+".garbled"); err != nil {
			return aside, fmt.Errorf("state: %w", err)
		}
		aside = append(aside, file+".garbled")
	}
	slices.Sort(aside)
	return aside, nil
}

func (d *Dir) read(name string, into any) error {
	data, err := os.ReadFile(filepath.Join(d.Path, name))
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return &lab.Error{
			Exit: lab.ExitFailed, Code: CodeGarbled, Message: "state file " + filepath.Join(d.Path, name) + " cannot be read",
			Cure: "lab up keeps a copy and writes it again; nothing is lost", Err: err,
		}
	}
	return nil
}

func (d *Dir) write(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if err := d.Create(); err != nil {
		return err
	}
	return d.put(name, append(data, '\n'))
}

// put writes a file whole or not at all.
func (d *Dir) put(name string, data []byte) error {
	file := filepath.Join(d.Path, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return unwritten(file, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), filepath.Base(name)+".*") // 0600
	if err != nil {
		return unwritten(file, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return unwritten(file, err)
	}
	if err := os.Rename(tmp.Name(), file); err != nil {
		return unwritten(file, err)
	}
	return syncDir(filepath.Dir(file))
}

// unwritten is the error for a file that could not be written; the one that it was to replace is as it was.
func unwritten(file string, err error) error {
	e := &lab.Error{Exit: lab.ExitFailed, Code: "state", Message: "cannot write " + file, Err: err}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		e.Cure = "free space there, then run the command again: it goes on where it ended"
	}
	return e
}

// syncDir makes a rename durable where the file system can.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	_ = f.Sync() // not every file system can
	return f.Close()
}

// FreePort returns prefer when nothing listens there on 127.0.0.1 and it is not in taken, else the next free port above it.
func FreePort(prefer int, taken ...int) (int, error) {
	for port := prefer; port < prefer+200; port++ {
		if slices.Contains(taken, port) {
			continue
		}
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("port %d: %w", port, err)
		}
		return port, nil
	}
	return 0, &lab.Error{Exit: lab.ExitFailed, Code: "no_port", Message: fmt.Sprintf("no free port from %d to %d on 127.0.0.1", prefer, prefer+199)}
}

// TakenPorts are those of all labs, which may be stopped at the moment.
func TakenPorts() []int {
	names, err := List()
	if err != nil {
		return nil
	}
	var ports []int
	for _, name := range names {
		if d, err := Open(name); err == nil {
			if r, err := d.Load(); err == nil {
				ports = append(ports, r.Ports.Engine, r.Ports.Forge)
			}
		}
	}
	return ports
}
