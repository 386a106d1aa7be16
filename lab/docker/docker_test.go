package docker

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"homelab/lab"
)

func TestPortTaken(t *testing.T) {
	const endpoint = "driver failed programming external connectivity on endpoint demo-forge (87e7dcd67991): "
	for text, address := range map[string]string{
		endpoint + "Error starting userland proxy: listen tcp4 127.0.0.1:9998: bind: address already in use":                         "127.0.0.1:9998",
		endpoint + "Bind for 127.0.0.1:9997 failed: port is already allocated":                                                       "127.0.0.1:9997",
		"failed to set up container networking: " + endpoint + "Bind for 0.0.0.0:80 failed: port is already allocated":               "0.0.0.0:80",
		endpoint + "failed to bind host port for 127.0.0.1:9998:172.17.0.2:80/tcp: address already in use":                           "127.0.0.1:9998",
		endpoint + "failed to bind host port 127.0.0.1:9998/tcp: address already in use":                                             "127.0.0.1:9998",
		endpoint + "Error starting userland proxy: listen tcp4 127.0.0.1:80: bind: permission denied":                                "",
		`Conflict. The container name "/demo-forge" is already in use by container "3a0af518". You have to remove (or rename) that.`: "",
	} {
		err := PortTaken(text)
		var e *lab.Error
		switch {
		case address == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case address != "" && (!errors.As(err, &e) || e.Code != "port_taken" || !strings.HasSuffix(e.Message, " "+address) || e.Cure == ""):
			t.Errorf("%s: %v, want %s in it", text, err, address)
		}
	}
}

func TestStart(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
	script := filepath.Join(t.TempDir(), "docker")
	says := func(text string) error {
		if err := os.WriteFile(script, []byte("#!/bin/sh\n[ \"$*\" = 'start demo' ] || exit 7\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		return (&Docker{program: script}).Start(t.Context(), "demo", "lab-demo")
	}
	if err := says(""); err != nil {
		t.Error(err)
	}
	var e *lab.Error
	if err := says("echo Bind for 127.0.0.1:9997 failed: port is already allocated >&2; exit 1"); !errors.As(err, &e) || e.Code != "port_taken" {
		t.Errorf("%v", err)
	}
	var d *Error
	if err := says("echo out of memory >&2; exit 1"); !errors.As(err, &d) || d.Stderr != "out of memory" {
		t.Errorf("%v", err)
	}
}
