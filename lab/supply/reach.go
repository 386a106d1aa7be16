package supply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"homelab/lab"
)

// reachTimeout is the timeout per host.
const reachTimeout = 3 * time.Second

// Unreachable returns the repositories and images that are not reachable, with the reasons. Any response of a host
// counts; each host is contacted once.
func Unreachable(ctx context.Context, repositories []string) map[string]error {
	var mu sync.Mutex
	hosts := map[string]error{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	var asked []string
	for _, r := range repositories {
		host, err := lab.HostOf(r)
		if err != nil || slices.Contains(asked, host) {
			continue
		}
		asked = append(asked, host)
		group.Go(func() error {
			err := reach(ctx, host)
			mu.Lock()
			defer mu.Unlock()
			hosts[host] = err
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	out := map[string]error{}
	for _, r := range repositories {
		host, err := lab.HostOf(r)
		if err = cmp.Or(err, hosts[host]); err != nil {
			out[r] = err
		}
	}
	return out
}

// reach contacts a host, as in https://ghcr.io.
func reach(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, host+"/", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err == nil {
		return res.Body.Close()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s sends nothing", req.URL.Host)
	}
	return fmt.Errorf("%s does not answer", req.URL.Host)
}
