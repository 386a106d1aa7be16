package doctor

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
)

// runtimeName is the name of the trimmed runtime in daemon.json.
const runtimeName = "lab-runc"

// privileged reports whether the engine can start privileged containers, such as Kind's nodes. A probe takes half a
// second, so it only runs if in doubt: the host lacks CAP_SYS_RESOURCE, and lab's runtime is not registered.
func (d *Doctor) privileged(ctx context.Context, s seen) Check {
	c := Check{ID: CheckPrivileged, Title: "privileged"}
	_, registered := s.info.Runtimes[runtimeName]
	ours := s.info.DefaultRuntime == runtimeName || registered && executable(d.o.Host.Wrapper) // the default, up to lab 0.1
	switch {
	case s.err != nil:
		return c.skip("not checked: no engine responds")
	case !s.local:
		return c.skip("not checked: the engine runs on another machine")
	case ours && !executable(d.o.Host.Runtime):
		return c.fail(d.o.Host.Runtime+" is gone, but the engine needs it", "lab doctor --fix recreates it", true)
	case ours && s.info.DefaultRuntime == runtimeName:
		return c.ok("with " + runtimeName + ", the engine's default runtime")
	case ours:
		return c.ok("with " + runtimeName + ", which drops CAP_SYS_RESOURCE")
	case s.caps.sysResource || !s.caps.known:
		return c.ok("the host grants all needed capabilities")
	}
	// A running Kind node is proof enough; that is the case at the second `lab up`.
	nodes, err := d.o.Docker.Output(ctx, nil, "ps", "--quiet", "--filter", "label=io.x-k8s.kind.cluster")
	if err == nil && len(nodes) > 0 {
		return c.ok("kind's nodes are running")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return c.silent(err)
	}
	err = d.probe(ctx, s.info.Architecture)
	switch {
	case err == nil:
		return c.ok("tried with runtime " + s.info.DefaultRuntime)
	case errors.Is(err, docker.ErrCapabilities):
		return c.fail("refused: the host's bounding set lacks CAP_SYS_RESOURCE",
			"lab doctor --fix registers a runtime that drops it", true)
	case errors.Is(err, errors.ErrUnsupported):
		return c.skip("not tried: " + err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return c.silent(err)
	}
	return c.fail("a test container fails: "+firstLine(err.Error()), "check the engine's log", false)
}

// silent is the result of a check that the engine did not answer.
func (c Check) silent(err error) Check {
	return c.fail(strings.TrimSuffix(firstLine(err.Error()), ": "+context.DeadlineExceeded.Error()), cureSilence, false)
}

// probe runs a privileged container from a temporary image: nothing is pulled.
func (d *Doctor) probe(ctx context.Context, arch string) (err error) {
	image, err := probeImage(arch)
	if err != nil {
		return err
	}
	// import has no --quiet; it only prints the id.
	label := "LABEL " + lab.LabelPart + "=doctor"
	out, err := d.o.Docker.Output(ctx, bytes.NewReader(image), "import", "--change", label, "-")
	if err != nil {
		return err
	}
	id := strings.TrimSpace(string(out))
	defer func() {
		// Remove the image even after a timeout.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		if _, rmErr := d.o.Docker.Output(ctx, nil, "image", "rm", "--force", id); rmErr != nil && err == nil {
			err = rmErr
		}
	}()
	_, err = d.o.Docker.Output(ctx, nil, "run", "--rm", "--privileged", "--network", "none",
		"--label", lab.LabelPart+"=doctor", id, "/true")
	return err
}

// probeImage returns the root file system of an image with one program, /true, which exits with 0.
func probeImage(arch string) ([]byte, error) {
	program, err := trueProgram(arch)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	// The time makes the image unique, so that concurrent probes do not remove each other's.
	header := &tar.Header{Name: "true", Mode: 0o755, Size: int64(len(program)), ModTime: time.Now(), Format: tar.FormatPAX}
	if err := tw.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := tw.Write(program); err != nil {
		return nil, err
	}
	return buf.Bytes(), tw.Close()
}

// trueProgram returns an ELF executable that calls exit(0). It is hand-assembled, as there may be no compiler and no
// static program.
func trueProgram(arch string) ([]byte, error) {
	var machine uint16
	var code []byte
	switch arch {
	case "x86_64", "amd64":
		machine = 62
		code = []byte{
			0x31, 0xff, // xor edi, edi
			0xb8, 0x3c, 0, 0, 0, // mov eax, 60 (exit)
			0x0f, 0x05, // syscall
		}
	case "aarch64", "arm64":
		machine = 183
		code = []byte{
			0x00, 0x00, 0x80, 0xd2, // mov x0, #0
			0xa8, 0x0b, 0x80, 0xd2, // mov x8, #93 (exit)
			0x01, 0x00, 0x00, 0xd4, // svc #0
		}
	default:
		return nil, fmt.Errorf("no probe for %s: %w", arch, errors.ErrUnsupported)
	}
	const base, headers = 0x400000, 64 + 56
	size := uint64(headers + len(code))
	var b bytes.Buffer
	b.Write([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}) // 64 bits, little-endian
	for _, field := range []any{
		uint16(2), machine, uint32(1), uint64(base + headers), // executable, its entry
		uint64(64), uint64(0), uint32(0), // program header at 64, no sections
		uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), size, size, uint64(0x1000), // load all of it, read and execute
	} {
		if err := binary.Write(&b, binary.LittleEndian, field); err != nil {
			return nil, err
		}
	}
	b.Write(code)
	return b.Bytes(), nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&0o111 != 0
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
