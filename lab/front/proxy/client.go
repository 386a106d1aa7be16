package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
)

// ClientUser is the user name of the engine at the proxy.
const ClientUser = "lab"

// The engine has the proxy's password and a key for SSH. Both derive from the secret of webhooks, so that they last as long as it.

// ClientPassword returns the password of the engine at the proxy.
func ClientPassword(secret string) string {
	return hex.EncodeToString(derive(secret, "lab front proxy"))
}

// ClientKey returns the engine's key for SSH.
func ClientKey(secret string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), derive(secret, "lab front ssh"))
	if err != nil {
		return nil, fmt.Errorf("SSH key: %w", err)
	}
	return key, nil
}

func derive(secret, what string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(what)) // never fails
	return mac.Sum(nil)
}

// authenticated reports whether a request to the proxy is the engine's. Others are challenged to authenticate.
func (s *Server) authenticated(w http.ResponseWriter, r *http.Request) bool {
	as := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	user, password, _ := as.BasicAuth()
	right := subtle.ConstantTimeCompare([]byte(password), []byte(ClientPassword(s.secrets.Webhook)))
	if user == ClientUser && right == 1 {
		return true
	}
	w.Header().Set("Proxy-Authenticate", `Basic realm="lab"`)
	http.Error(w, "lab: this proxy is only for the engine", http.StatusProxyAuthRequired)
	return false
}
