package cli

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"homelab/lab"
	"homelab/lab/engine/kube"
	"homelab/lab/hostnames"
	"homelab/lab/plan"
	"homelab/lab/service"
	"homelab/lab/state"
	"homelab/lab/up"
)

// addDoor adds the door.
func (l *instance) addDoor(wanted bool, creds state.Credentials) {
	certificate, _ := hostnames.Certificate(creds.Authority) // without one, lab up creates it before anything uses it
	in := served{l.core.Clusters, kube.Door{Lab: l.ws.Name, Domain: hostnames.Domain(l.ws.Name), Host: lab.PartName(l.ws.Name, hostnames.Name), CA: certificate}}
	var clusters []string
	if l.with.estate != nil {
		for _, c := range l.with.estate.Clusters {
			if c.Provider != lab.ProviderExisting {
				clusters = append(clusters, c.Name)
			}
		}
	}
	l.core.Parts = append(l.core.Parts, up.Part{
		Part:   plan.Part{Name: hostnames.Name, Wanted: wanted, Serves: clusters},
		Images: []string{hostnames.Name}, Service: hostnames.New(l.ws.Name, l.docker, l.ws.Dir, creds.Authority, clusters, in),
		Leave: func(ctx context.Context) error {
			for _, name := range clusters {
				if err := in.leave(ctx, name); err != nil && !errors.Is(err, hostnames.ErrAway) {
					return err
				}
			}
			return nil
		},
	})
}

// ensureAuthority creates the certificate authority of the lab's names, unless there is one.
func ensureAuthority(dir *state.Dir, creds *state.Credentials) error {
	if creds.Authority != "" {
		return nil
	}
	ca, err := hostnames.NewAuthority(dir.Lab, time.Now())
	if err != nil {
		return err
	}
	creds.Authority = ca
	return dir.SaveAuthority(ca)
}

// served are clusters of a lab's own, as its door needs them.
type served struct {
	clusters up.Clusters
	door     kube.Door
}

// Limits of the requests to one cluster
const (
	lookLimit  = 5 * time.Second
	admitLimit = 2 * time.Minute
)

// Observe implements hostnames.Clusters.
func (s served) Observe(ctx context.Context, name string) (cred hostnames.Credential, lacks string, err error) {
	err = s.within(ctx, name, lookLimit, func(ctx context.Context, c kube.Clients) error {
		var have kube.Credential
		have, lacks, err = s.door.Observe(ctx, c.Dynamic)
		cred = hostnames.Credential(have)
		return err
	})
	return cred, lacks, err
}

// Admit implements hostnames.Clusters.
func (s served) Admit(ctx context.Context, name string) (cred hostnames.Credential, err error) {
	err = s.within(ctx, name, admitLimit, func(ctx context.Context, c kube.Clients) error {
		have, err := s.door.Ensure(ctx, c.Dynamic)
		cred = hostnames.Credential(have)
		return err
	})
	return cred, err
}

func (s served) leave(ctx context.Context, name string) error {
	return s.within(ctx, name, lookLimit, func(ctx context.Context, c kube.Clients) error { return s.door.Leave(ctx, c.Dynamic) })
}

// within calls do with the clients of a cluster. An error that is not the API's answer is hostnames.ErrAway.
func (s served) within(ctx context.Context, name string, limit time.Duration, do func(context.Context, kube.Clients) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cfg, err := s.clusters.RESTConfig(name)
	if err != nil {
		return errors.Join(hostnames.ErrAway, err)
	}
	clients, err := kube.Connect(cfg)
	if err == nil {
		err = do(ctx, clients)
	}
	var known *lab.Error
	var answer apierrors.APIStatus
	if err == nil || errors.As(err, &known) || errors.As(err, &answer) || errors.Is(err, kube.ErrNoToken) {
		return err
	}
	return errors.Join(hostnames.ErrAway, err)
}

// doorURL returns the address of a host of a lab's door on this machine, or "" if the lab has none. An empty host is the domain itself, which lists the names.
func doorURL(dir *state.Dir, host string) string {
	port := dir.PortOf(service.PortName(hostnames.Name, hostnames.HTTPS))
	if port == 0 {
		return ""
	}
	name := hostnames.Domain(dir.Lab)
	if host != "" {
		name = host + "." + name
	}
	if port != hostnames.HTTPS {
		name = net.JoinHostPort(name, strconv.Itoa(port))
	}
	return "https://" + name
}
