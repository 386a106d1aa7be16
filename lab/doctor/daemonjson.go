package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
)

// daemonConfig is a daemon.json. Raw values preserve unknown fields.
type daemonConfig map[string]json.RawMessage

// parseDaemonConfig parses a daemon.json. An empty file is an empty configuration, as for dockerd.
func parseDaemonConfig(text []byte) (daemonConfig, error) {
	config := daemonConfig{}
	if len(bytes.TrimSpace(text)) == 0 {
		return config, nil
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	if config == nil {
		return nil, errors.New("it holds null, not an object")
	}
	return config, nil
}

// defaultRuntime returns the name of the default runtime.
func (c daemonConfig) defaultRuntime() string {
	name := ""
	_ = json.Unmarshal(c["default-runtime"], &name) // missing or not a string: program reports it
	if name == "" {
		return "runc"
	}
	return name
}

func (c daemonConfig) runtimes() (map[string]json.RawMessage, error) {
	runtimes := map[string]json.RawMessage{}
	if raw, ok := c["runtimes"]; ok {
		if err := json.Unmarshal(raw, &runtimes); err != nil {
			return nil, fmt.Errorf("runtimes: %w", err)
		}
	}
	if runtimes == nil {
		runtimes = map[string]json.RawMessage{}
	}
	return runtimes, nil
}

// program returns the default runtime's command and dockerd's arguments for it.
func (c daemonConfig) program() (path string, args []string, err error) {
	if raw, ok := c["default-runtime"]; ok {
		var name string
		if err := json.Unmarshal(raw, &name); err != nil {
			return "", nil, fmt.Errorf("default-runtime: %w", err)
		}
	}
	runtimes, err := c.runtimes()
	if err != nil {
		return "", nil, err
	}
	name := c.defaultRuntime()
	raw, ok := runtimes[name]
	if !ok {
		if name == "runc" || name == "io.containerd.runc.v2" {
			return "runc", nil, nil // built-in
		}
		return "", nil, fmt.Errorf("its default runtime %s is not among its runtimes", name)
	}
	var entry struct {
		Path        string   `json:"path"`
		RuntimeArgs []string `json:"runtimeArgs"`
		RuntimeType string   `json:"runtimeType"`
	}
	if err := json.Unmarshal(raw, &entry); err != nil {
		return "", nil, fmt.Errorf("runtimes.%s: %w", name, err)
	}
	if entry.Path == "" || entry.RuntimeType != "" {
		return "", nil, fmt.Errorf("its default runtime %s is a shim (%s), which cannot be wrapped", name, entry.RuntimeType)
	}
	return entry.Path, entry.RuntimeArgs, nil
}

// with returns the configuration with another runtime. The default stays.
func (c daemonConfig) with(name, path string, args []string) ([]byte, error) {
	runtimes, err := c.runtimes()
	if err != nil {
		return nil, err
	}
	entry := map[string]any{"path": path}
	if len(args) > 0 {
		entry["runtimeArgs"] = args
	}
	if runtimes[name], err = encode(entry); err != nil {
		return nil, err
	}
	merged := maps.Clone(c)
	if merged["runtimes"], err = encode(runtimes); err != nil {
		return nil, err
	}
	return encode(merged)
}

// without returns the configuration without what after has in addition to before: the runtime, and a list of runtimes that would be empty. It fails if
// the runtime has been changed since, or made the default.
func (c daemonConfig) without(name string, before, after daemonConfig) ([]byte, error) {
	is, err := c.runtimes()
	if err != nil {
		return nil, err
	}
	was, _ := after.runtimes()
	if c.defaultRuntime() == name && before.defaultRuntime() != name {
		return nil, fmt.Errorf("%s is now the default runtime", name)
	}
	if !sameJSON(is[name], was[name]) {
		return nil, fmt.Errorf("runtimes.%s was changed since", name)
	}
	delete(is, name)
	rest := maps.Clone(c)
	if _, had := before["runtimes"]; !had && len(is) == 0 {
		delete(rest, "runtimes")
	} else if rest["runtimes"], err = encode(is); err != nil {
		return nil, err
	}
	return encode(rest)
}

// encode is json.MarshalIndent without HTML escaping.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	err := enc.Encode(v)
	return buf.Bytes(), err
}

// sameJSON reports whether two texts are equal as JSON, numbers as they are written.
func sameJSON(a, b []byte) bool {
	decode := func(text []byte, v *any) bool {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		return dec.Decode(v) == nil
	}
	var x, y any
	return decode(a, &x) && decode(b, &y) && reflect.DeepEqual(x, y)
}
