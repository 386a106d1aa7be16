package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/hostnames"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) caTrustCommand() *cli.Command {
	return &cli.Command{
		Name: "trust", Usage: "have this system trust the certificate authority of the lab's names",
		Description: "It needs root's rights. It can sign for names below LAB.localhost alone. Browsers with a store of their own do not see it: import what lab ca prints there.\n\n" +
			examples("sudo lab ca trust", "lab ca trust -o json"),
		Flags: []cli.Flag{nameFlag, estateFlag, outputFlag},
		Action: p.labAction(p.existing, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			text, err := certificate(ws)
			if err != nil {
				return err
			}
			return p.trustCA(c.Context, ws, text)
		}),
	}
}

func (p *program) caUntrustCommand() *cli.Command {
	return &cli.Command{
		Name: "untrust", Usage: "undo lab ca trust, also after lab down",
		Description: examples("sudo lab ca untrust", "sudo lab ca untrust --name demo", "lab ca untrust -o json"),
		Flags:       []cli.Flag{nameFlag, estateFlag, outputFlag},
		Action:      p.labAction(p.open, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error { return p.trustCA(c.Context, ws, "") }),
	}
}

// trustCA installs a certificate, or removes the lab's if it is empty.
func (p *program) trustCA(ctx context.Context, ws *workspace.Workspace, certificate string) error {
	again := "trust"
	if certificate == "" {
		again = "untrust"
	}
	s := systemStore()
	s.again = "sudo " + ws.Command("lab ca") + " " + again
	res, err := s.set(ctx, ws.Name, certificate)
	if err != nil {
		return err
	}
	line := "nothing changed: " + res.Store + " has it"
	switch {
	case !res.Changed && certificate == "":
		line = "nothing changed: " + res.Store + " does not have it"
	case res.Changed:
		line = strings.Join(res.Did, "\n")
	}
	return p.ui.Result(res, line)
}

// trustStore installs certificates in a system's store.
type trustStore struct {
	goos  string
	root  string // of the file system
	user  int    // effective; -1 where there are none
	run   func(ctx context.Context, name string, args ...string) error
	again string // the command, with root's rights
}

func systemStore() trustStore {
	return trustStore{goos: runtime.GOOS, root: "/", user: os.Geteuid(), run: runProgram}
}

type trustFolder struct{ folder, update, afterRemoval string }

// folders are where systems keep the certificates that their administrators trust, and the programs that read them.
var folders = []trustFolder{
	{"usr/local/share/ca-certificates", "update-ca-certificates", "update-ca-certificates --fresh"}, // Debian
	{"etc/pki/ca-trust/source/anchors", "update-ca-trust extract", "update-ca-trust extract"},       // Fedora
	{"etc/ca-certificates/trust-source/anchors", "trust extract-compat", "trust extract-compat"},    // Arch
	{"etc/pki/trust/anchors", "update-ca-certificates", "update-ca-certificates"},                   // SUSE
}

// set installs a certificate as a lab's, or removes the lab's if it is empty.
func (s trustStore) set(ctx context.Context, labName, certificate string) (ui.CATrustResult, error) {
	res := ui.CATrustResult{Lab: labName, Trusted: certificate != ""}
	title := "lab " + hostnames.Domain(labName) // the certificate's common name
	switch s.goos {
	case "darwin":
		const keychain = "/Library/Keychains/System.keychain"
		res.Store = keychain
		return s.program(ctx, res, certificate, []string{"security", "add-trusted-cert", "-d", "-r", "trustRoot", "-k", keychain}, []string{"security", "delete-certificate", "-c", title, "-t", keychain})
	case "windows":
		res.Store = "the store ROOT"
		return s.program(ctx, res, certificate, []string{"certutil", "-addstore", "-f", "ROOT"}, []string{"certutil", "-delstore", "ROOT", title})
	}
	for _, f := range folders {
		dir := filepath.Join(s.root, f.folder)
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		res.Store, res.File = dir, filepath.Join(dir, storeFile(labName))
		had, err := os.ReadFile(res.File)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return res, err
		}
		if bytes.Equal(had, []byte(certificate)) {
			return res, nil
		}
		if err := s.privileged(); err != nil {
			return res, err
		}
		update := f.update
		if certificate == "" {
			update = f.afterRemoval
			err = os.Remove(res.File)
			res.Did = append(res.Did, "removed "+res.File)
		} else {
			err = os.WriteFile(res.File, []byte(certificate), 0o644)
			res.Did = append(res.Did, "wrote "+res.File)
		}
		if err != nil {
			return res, err
		}
		words := strings.Fields(update)
		if err := s.run(ctx, words[0], words[1:]...); err != nil { // otherwise the next run would find nothing to do
			return res, errors.Join(err, restore(res.File, had))
		}
		res.Changed, res.Did = true, append(res.Did, "ran "+update)
		return res, nil
	}
	return res, &lab.Error{
		Exit: lab.ExitFailed, Code: "no_store", Message: "this system has no folder for trusted certificates that lab knows",
		Cure: "print the certificate (lab ca) and import it in the way of this system", Details: []string{"looked for /" + folders[0].folder + " and those of Fedora, Arch and SUSE"},
	}
}

func storeFile(labName string) string { return "lab-" + labName + ".crt" }

// outdated reports whether one of the folders has another certificate of a lab, as after the loss of its files.
func (s trustStore) outdated(labName, certificate string) bool {
	return s.goos == "linux" && slices.ContainsFunc(folders, func(f trustFolder) bool {
		had, err := os.ReadFile(filepath.Join(s.root, f.folder, storeFile(labName)))
		return err == nil && string(had) != certificate
	})
}

// restore writes a file's former content, or removes it if it had none.
func restore(file string, had []byte) error {
	if had == nil {
		return os.Remove(file)
	}
	return os.WriteFile(file, had, 0o644)
}

// program has a program of the system install or remove a certificate. add gets a file as its last argument.
func (s trustStore) program(ctx context.Context, res ui.CATrustResult, certificate string, add, remove []string) (ui.CATrustResult, error) {
	if err := s.privileged(); err != nil {
		return res, err
	}
	args := remove
	if certificate != "" {
		dir, err := os.MkdirTemp("", "lab-ca-*")
		if err != nil {
			return res, err
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "ca.crt")
		if err := os.WriteFile(file, []byte(certificate), 0o600); err != nil {
			return res, err
		}
		args = append(add, file)
	}
	if err := s.run(ctx, args[0], args[1:]...); err != nil {
		return res, err
	}
	res.Changed, res.Did = true, []string{"ran " + strings.Join(args, " ")}
	return res, nil
}

// privileged returns an error without root's rights. Windows' own program says so itself.
func (s trustStore) privileged() error {
	if s.user <= 0 {
		return nil
	}
	return &lab.Error{Exit: lab.ExitFailed, Code: "not_root", Message: "only root may change what this system trusts; nothing was changed", Cure: s.again}
}

// trustLimit bounds a program that changes the system's store, which may ask for a password.
const trustLimit = 2 * time.Minute

func runProgram(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, trustLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}
