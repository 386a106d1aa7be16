package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"homelab/lab"
	"homelab/lab/strict"
	"homelab/lab/trust"
)

// Untrusted is the state of an existing cluster that the user has not agreed to access.
const Untrusted = "unknown: not trusted"

// CodeUntrusted is the code of the error for access that an estate needs and the user has not agreed to.
const CodeUntrusted = "untrusted"

func untrusted(err error) bool {
	var e *lab.Error
	return errors.As(err, &e) && e.Code == CodeUntrusted
}

// maxKubeconfig bounds kubeconfigs that an estate points to, in bytes.
const maxKubeconfig = 1 << 20

// entry is one context of a kubeconfig. It is only parsed: no referenced file is read, no program run, no server contacted.
type entry struct {
	file string               // empty for the user's own, which may be several
	data []byte               // of file
	cfg  *clientcmdapi.Config // of the context alone
	own  bool                 // it is the user's, or lab's copy of what was agreed to
}

// entry returns the context of a cluster as the estate has it.
func (e *Existing) entry(name string) (entry, error) {
	from := e.estate[name].Existing
	own := clientcmd.NewDefaultClientConfigLoadingRules()
	if from.Kubeconfig == "" {
		cfg, err := own.Load()
		if err != nil {
			return entry{}, fmt.Errorf("kubeconfig: %w", err)
		}
		return (&entry{cfg: cfg, own: true}).choose(from.Context)
	}
	file, err := e.path(from.Kubeconfig)
	if err != nil {
		return entry{}, err
	}
	c := &entry{file: file, own: slices.ContainsFunc(own.Precedence, func(theirs string) bool { return sameFile(file, theirs) })}
	if err := c.load(); err != nil {
		return entry{}, fmt.Errorf("kubeconfig: %w", err)
	}
	return c.choose(from.Context)
}

// copied returns lab's copy of a cluster's kubeconfig.
func (e *Existing) copied(name string) (entry, error) {
	c := &entry{file: e.Kubeconfig(name), own: true}
	if err := c.load(); err != nil {
		return entry{}, fmt.Errorf("kubeconfig: %w", err)
	}
	return c.choose("")
}

// path returns the absolute path of a kubeconfig of the estate's.
func (e *Existing) path(written string) (string, error) {
	if rest, ok := strings.CutPrefix(written, "~/"); ok {
		home, err := os.UserHomeDir()
		return filepath.Join(home, rest), err
	}
	if filepath.IsAbs(written) {
		return written, nil
	}
	return filepath.Join(e.dir, written), nil
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// load reads a kubeconfig as data.
func (c *entry) load() error {
	if info, err := os.Stat(c.file); err != nil {
		return err
	} else if !info.Mode().IsRegular() || info.Size() > maxKubeconfig {
		return fmt.Errorf("%s is not a file of at most %d KiB", c.file, maxKubeconfig>>10)
	}
	f, err := os.Open(c.file)
	if err != nil {
		return err
	}
	defer f.Close()
	if c.data, err = io.ReadAll(io.LimitReader(f, maxKubeconfig)); err != nil {
		return err
	}
	if c.cfg, err = clientcmd.Load(c.data); err != nil {
		return fmt.Errorf("%s: %w", c.file, err)
	}
	for _, u := range c.cfg.AuthInfos {
		u.LocationOfOrigin = c.file
	}
	for _, s := range c.cfg.Clusters {
		s.LocationOfOrigin = c.file
	}
	for _, x := range c.cfg.Contexts {
		x.LocationOfOrigin = c.file
	}
	return clientcmd.ResolveLocalPaths(c.cfg)
}

// choose reduces a kubeconfig to one context, by default the current one.
func (c *entry) choose(context string) (entry, error) {
	if context != "" {
		c.cfg.CurrentContext = context
	}
	if c.cfg.Contexts[c.cfg.CurrentContext] == nil {
		return entry{}, &lab.Error{
			Exit: lab.ExitFailed, Code: "no_context", Message: fmt.Sprintf("the kubeconfig has no context %q", c.cfg.CurrentContext),
			Cure: "name one in spec.existing.context: kubectl config get-contexts", Details: contexts(*c.cfg),
		}
	}
	if err := clientcmdapi.MinifyConfig(c.cfg); err != nil {
		return entry{}, fmt.Errorf("kubeconfig: %w", err)
	}
	return *c, nil
}

func contexts(cfg clientcmdapi.Config) []string {
	var names []string
	for name := range cfg.Contexts {
		names = append(names, name)
	}
	if slices.Sort(names); len(names) == 0 {
		return nil
	}
	return []string{"it has " + strings.Join(names, ", ")}
}

// parts returns the only user and server.
func (c entry) parts() (user *clientcmdapi.AuthInfo, server *clientcmdapi.Cluster) {
	user, server = clientcmdapi.NewAuthInfo(), clientcmdapi.NewCluster()
	for _, u := range c.cfg.AuthInfos {
		user = u
	}
	for _, s := range c.cfg.Clusters {
		server = s
	}
	return user, server
}

// things returns what the estate asks for with an existing cluster. Both the server and the user are part of it, so that a change of either is asked about.
func (c entry) things(of lab.Cluster) []trust.Thing {
	user, server := c.parts()
	where, context := "your kubeconfig", c.cfg.Contexts[c.cfg.CurrentContext]
	if c.file != "" {
		where = c.file
	}
	at := of.Position("spec.existing")
	if p, ok := of.Positions["spec.existing.context"]; ok {
		at = p
	}
	list := []trust.Thing{{
		At: at, Kind: trust.Cluster, Cluster: of.Name, Gives: "cluster-admin, for lab and the hub's engine",
		What: fmt.Sprintf("context %q of %s: %s as %q, which the hub reaches at %s", c.cfg.CurrentContext, where, server.Server, context.AuthInfo, of.Existing.Server),
	}}
	if user.Exec != nil {
		list = append(list, trust.Thing{
			At: at, Kind: trust.Plugin, Cluster: of.Name, What: fmt.Sprintf("%q", append([]string{user.Exec.Command}, user.Exec.Args...)),
			Gives: "your kubeconfig runs it to get credentials",
		})
	}
	return list
}

// refused returns what only the user's own kubeconfig may have: programs that are run, files that are read or sent, and a way around.
func (c entry) refused() lab.Problems {
	if c.own {
		return nil
	}
	var list lab.Problems
	context := c.cfg.Contexts[c.cfg.CurrentContext]
	user, server := c.parts()
	refuse := func(section, of, key, what string) {
		list = append(list, lab.Problem{
			Position: c.position(section, of, key), Message: key + " " + what + ": only in your own kubeconfig",
			Cure: "leave spec.existing.kubeconfig out, and name a context of ~/.kube/config",
		})
	}
	inFolder := func(section, of, key, file string) {
		if file != "" && c.beyond(file) {
			refuse(section, of, key, "reads a file elsewhere")
		}
	}
	if user.Exec != nil {
		refuse("user", context.AuthInfo, "exec", "runs a program")
	}
	if user.AuthProvider != nil {
		refuse("user", context.AuthInfo, "auth-provider", "runs a program")
	}
	if user.TokenFile != "" {
		refuse("user", context.AuthInfo, "tokenFile", "sends a file to the server")
	}
	inFolder("user", context.AuthInfo, "client-certificate", user.ClientCertificate)
	inFolder("user", context.AuthInfo, "client-key", user.ClientKey)
	inFolder("cluster", context.Cluster, "certificate-authority", server.CertificateAuthority)
	if server.ProxyURL != "" {
		refuse("cluster", context.Cluster, "proxy-url", "redirects to another server")
	}
	return list
}

// beyond reports whether a file is not in the kubeconfig's folder.
func (c entry) beyond(file string) bool {
	folder, err := filepath.EvalSymlinks(filepath.Dir(c.file))
	if err != nil {
		return true
	}
	real, err := filepath.EvalSymlinks(file)
	if errors.Is(err, os.ErrNotExist) {
		real, folder = filepath.Clean(file), filepath.Dir(c.file) // reported when it is read
	} else if err != nil {
		return true
	}
	rel, err := filepath.Rel(folder, real)
	return err != nil || !filepath.IsLocal(rel)
}

// position returns where a user or cluster of the kubeconfig has a key.
func (c entry) position(section, of, key string) lab.Position {
	p := lab.Position{File: c.file}
	docs, _ := strict.Parse(c.file, c.data)
	if len(docs) == 0 {
		return p
	}
	list := strict.Get(docs[0], section+"s")
	if list == nil {
		return p
	}
	for _, n := range list.Content {
		if strict.Text(n, "name") != of {
			continue
		}
		body := strict.Get(n, section)
		for i := 0; body != nil && body.Kind == yaml.MappingNode && i+1 < len(body.Content); i += 2 {
			if body.Content[i].Value == key {
				return strict.Position(c.file, body.Content[i])
			}
		}
	}
	return p
}

// Outside returns what the estate asks for with its existing clusters, and refuses kubeconfigs that it may not bring. Those that cannot be read ask for nothing.
func (e *Existing) Outside() ([]trust.Thing, error) {
	var list []trust.Thing
	var problems lab.Problems
	for _, c := range e.estate {
		from, err := e.entry(c.Name)
		if err != nil {
			continue
		}
		list, problems = append(list, from.things(c)...), append(problems, from.refused()...)
	}
	trust.Sort(list)
	return list, refusal(problems)
}

func refusal(problems lab.Problems) error {
	if len(problems) == 0 {
		return nil
	}
	problems.Sort()
	return &lab.Error{Exit: lab.ExitInvalid, Code: "invalid_estate", Message: "a kubeconfig of the estate is rejected, nothing was touched", Problems: problems}
}

// access returns the kubeconfig of one cluster: the estate's, if it was agreed to, or lab's copy if the estate lacks the cluster.
func (e *Existing) access(name string) (*clientcmdapi.Config, error) {
	of, wanted := e.estate[name]
	choose := e.copied
	if wanted {
		choose = e.entry
	}
	from, err := choose(name)
	if err == nil && wanted {
		err = refusal(from.refused())
	}
	if err == nil && wanted && slices.ContainsFunc(from.things(of), func(t trust.Thing) bool { return !e.agreed(t) }) {
		err = &lab.Error{Exit: lab.ExitInvalid, Code: CodeUntrusted, Message: "access to it is not trusted yet", Cure: "lab up asks"}
	}
	if err != nil && wanted && e.Leaving && e.state.Cluster(name).Attached {
		from, err = e.copied(name)
	}
	if err != nil {
		return nil, err
	}
	if err := clientcmdapi.FlattenConfig(from.cfg); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return from.cfg, nil
}
