package supply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// reachTimeout is the timeout per host.
const reachTimeout = 3 * time.Second

// Unreachable returns the chart and Git repositories that are not reachable, with the reasons. Any response of a host
// counts; each host is contacted once.
func Unreachable(ctx context.Context, repositories []string) map[string]error {
	var mu sync.Mutex
	hosts := map[string]error{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	var asked []string
	for _, r := range repositories {
		scheme, host := hostOf(r)
		key := scheme + " " + host
		if slices.Contains(asked, key) {
			continue
		}
		asked = append(asked, key)
		group.Go(func() error {
			err := reach(ctx, scheme, host)
			mu.Lock()
			defer mu.Unlock()
			hosts[key] = err
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	out := map[string]error{}
	for _, r := range repositories {
		scheme, host := hostOf(r)
		if err := hosts[scheme+" "+host]; err != nil {
			out[r] = err
		}
	}
	return out
}

// hostOf returns scheme and host of a repository: https://charts.example.com/x, oci://ghcr.io/x, ghcr.io/x,
// git@example.com:x.git, ssh://git@example.com/x.git.
func hostOf(repository string) (scheme, host string) {
	if !strings.Contains(repository, "://") {
		if user, rest, ok := strings.Cut(repository, "@"); ok && !strings.Contains(user, "/") {
			host, _, _ = strings.Cut(rest, ":")
			return "ssh", host
		}
		host, _, _ = strings.Cut(repository, "/")
		return "https", host
	}
	u, err := url.Parse(repository)
	if err != nil {
		return "https", repository
	}
	switch u.Scheme {
	case "http", "ssh":
		return u.Scheme, u.Host
	}
	return "https", cmp.Or(u.Host, repository)
}

// errSSH is the reason for SSH addresses, whether their host answers or not.
var errSSH = errors.New("lab does not provide the engine with SSH keys")

func reach(ctx context.Context, scheme, host string) error {
	if scheme == "ssh" {
		return errSSH
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, scheme+"://"+host+"/", nil)
	if err == nil {
		var res *http.Response
		if res, err = http.DefaultTransport.RoundTrip(req); err == nil {
			err = res.Body.Close()
		}
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s sends nothing", host)
	}
	return fmt.Errorf("%s does not answer", host)
}
