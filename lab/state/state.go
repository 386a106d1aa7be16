// Package state keeps a lab's state between runs: a private folder per lab.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"homelab/lab"
)

// Dir is the folder of a lab. It is created by Create.
type Dir struct {
	Lab  string
	Path string

	mu sync.Mutex // of ports
}

// Root returns the folder of all labs: $XDG_STATE_HOME/lab, or ~/.local/state/lab. With sudo, ~ is the invoking user's.
func Root() (string, error) { return xdg("XDG_STATE_HOME", ".local/state") }

// CacheRoot returns the cache folder: $XDG_CACHE_HOME/lab, or ~/.cache/lab, likewise.
func CacheRoot() (string, error) { return xdg("XDG_CACHE_HOME", ".cache") }

func xdg(env, fallback string) (string, error) {
	if dir := os.Getenv(env); filepath.IsAbs(dir) { // the XDG specification ignores relative paths
		return filepath.Join(dir, "lab"), nil
	}
	home, err := self().home()
	var known *lab.Error
	if errors.As(err, &known) {
		return "", err
	}
	if err != nil {
		return "", &lab.Error{Exit: lab.ExitFailed, Code: "no_home", Message: "no folder for lab's files", Cure: "set " + env, Err: err}
	}
	return filepath.Join(home, fallback, "lab"), nil
}

// Open returns the folder of a lab without creating it.
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

// Exists reports whether the lab was brought up and not taken down since.
func (d *Dir) Exists() bool {
	_, err := os.Stat(filepath.Join(d.Path, recordFile))
	return err == nil
}

// Kubeconfigs returns the folder of the lab's kubeconfigs.
func (d *Dir) Kubeconfigs() string { return filepath.Join(d.Path, kubeconfigsDir) }

const (
	kubeconfigsDir  = "kubeconfigs"
	recordFile      = "lab.json"
	credentialsFile = "credentials.json"
)

// format is the version of the record. An older lab would drop unknown fields.
const format = 1

// Record is the persistent configuration of a lab.
type Record struct {
	Format  int            `json:"format"` // of the file; 0 otherwise
	Lab     string         `json:"lab"`
	Estate  string         `json:"estate"` // absolute path; empty for the embedded estate
	Engine                 // its fields are the record's own
	Asked   lab.EngineType `json:"engineAsked,omitempty"`        // by --engine, overrides the estate
	Version string         `json:"engineVersionAsked,omitempty"` // by --engine-version, of Engine
	Images  string         `json:"images"`                       // requested origin of images
	Former  Engine         `json:"formerEngine,omitzero"`        // that Engine replaces, until it is fully removed
	Ports   Ports          `json:"ports"`
	Docker  Docker         `json:"docker,omitzero"` // of the last run
}

// Docker is a container engine.
type Docker struct {
	ID      string `json:"id"`      // empty if it has none
	Address string `json:"address"` // as the docker command had it
}

// NamespaceOf returns the namespace of a recorded engine, empty for the default.
func (r Record) NamespaceOf(t lab.EngineType) string {
	for _, e := range []Engine{r.Former, r.Engine} {
		if e.Type == t {
			return e.Namespace
		}
	}
	return ""
}

// Engine is an engine as a lab runs it.
type Engine struct {
	Type      lab.EngineType `json:"engine"`
	Shape     lab.Shape      `json:"shape,omitempty"`     // if every cluster runs one
	Namespace string         `json:"namespace,omitempty"` // empty for its default
}

// String names an engine and its shape.
func (e Engine) String() string {
	if e.Shape == lab.ShapeStandalone {
		return string(e.Type) + " on every cluster"
	}
	return string(e.Type)
}

// Create creates the folder.
func (d *Dir) Create() error {
	if err := os.MkdirAll(d.Kubeconfigs(), 0o700); err != nil {
		return writeError(d.Kubeconfigs(), err)
	}
	return self().handOver(d.Path)
}

// Load reads the record, which is empty for a new lab.
func (d *Dir) Load() (Record, error) {
	var r Record
	err := d.read(recordFile, &r)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{Lab: d.Lab}, nil
	}
	if err == nil && r.Format > format {
		return Record{}, &lab.Error{
			Exit: lab.ExitFailed, Code: "newer", Message: fmt.Sprintf("lab %s was last changed by a newer version of lab, nothing was touched", d.Lab),
			Details: []string{fmt.Sprintf("%s has format %d, and this version knows %d", filepath.Join(d.Path, recordFile), r.Format, format)},
			Cure:    "use that version, or a later one",
		}
	}
	r.Format = 0
	return r, err
}

// Save writes the record.
func (d *Dir) Save(r Record) error {
	r.Format = format
	return d.write(recordFile, r)
}

// Remove deletes the folder, including the lock file.
func (d *Dir) Remove() error {
	if err := os.RemoveAll(d.Path); err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	// fails while there are other labs
	_ = os.Remove(filepath.Dir(d.Path))
	return nil
}

// CodeGarbled is the code of the error for an invalid state file.
const CodeGarbled = "garbled"

// SetAside renames invalid state files to NAME.garbled and returns the new paths. lab up recreates their content.
func (d *Dir) SetAside() ([]string, error) {
	var aside []string
	var c Credentials
	for name, err := range map[string]error{recordFile: d.read(recordFile, &Record{}), credentialsFile: d.read(credentialsFile, &c)} {
		var e *lab.Error
		lacks := name == credentialsFile && err == nil && !c.whole()
		if !lacks && (!errors.As(err, &e) || e.Code != CodeGarbled) {
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
	file := filepath.Join(d.Path, name)
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("state: %w", err)
	case err != nil: // it exists: its content is unknown
		return &lab.Error{Exit: lab.ExitFailed, Code: "state", Message: "cannot read " + file, Cure: "make it a file that you can read: chown, chmod", Err: err}
	}
	if err := json.Unmarshal(data, into); err != nil {
		return d.garbled(name, err)
	}
	return nil
}

func (d *Dir) garbled(name string, err error) *lab.Error {
	return &lab.Error{
		Exit: lab.ExitFailed, Code: CodeGarbled, Message: "state file " + filepath.Join(d.Path, name) + " cannot be read",
		Cure: "lab up keeps a copy and recreates it", Err: err,
	}
}

func (d *Dir) write(name string, v any) error {
	if err := d.Create(); err != nil {
		return err
	}
	return d.writeJSON(name, v)
}

// writeJSON writes a file as JSON, without creating the other folders of a lab.
func (d *Dir) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return d.put(name, append(data, '\n'))
}

// put writes a file atomically.
func (d *Dir) put(name string, data []byte) error {
	file := filepath.Join(d.Path, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return writeError(file, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), filepath.Base(name)+".*") // mode 0600
	if err != nil {
		return writeError(file, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return writeError(file, err)
	}
	if err := os.Rename(tmp.Name(), file); err != nil {
		return writeError(file, err)
	}
	return errors.Join(self().handOver(file), syncDir(filepath.Dir(file)))
}

// writeError wraps the error of a write. The old file is unchanged.
func writeError(file string, err error) error {
	e := &lab.Error{Exit: lab.ExitFailed, Code: "state", Message: "cannot write " + file, Err: err}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Cure = "free space there, then run the command again: it resumes"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		e.Cure = "make the folder writable, then run the command again"
	}
	return e
}

// syncDir makes a rename durable, if possible.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	_ = f.Sync() // not supported by every file system
	return f.Close()
}
