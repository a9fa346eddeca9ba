package brokerless

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
)

// Headers of a brokerless call.
const (
	headerID      = "Message-Id"
	headerKeys    = "Message-Keys"       // separated by blanks
	headerTimeout = "Message-Timeout-Ms" // what the receiver has left
)

const (
	callTimeout  = 10 * time.Second       // of one brokerless call and all that follows from it
	replyTime    = 200 * time.Millisecond // of the deadline, for the way of the response
	connectWait  = 2 * time.Second
	maxCalls     = 8            // brokerless calls of one topic in flight
	idleConns    = 4 * maxCalls // to one listener, which consumes several topics
	maxErrorBody = 4 << 10
)

// client posts messages to the internal listeners of other services.
type client struct {
	secrets []string
	http    *http.Client
}

// newTransport returns a transport that gives up on an unreachable host long before a call ends.
func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: connectWait}).DialContext,
		MaxIdleConnsPerHost: idleConns,
		IdleConnTimeout:     time.Minute,
	}
}

func newClient(secrets []string, transport http.RoundTripper) *client {
	return &client{secrets: secrets, http: &http.Client{
		Transport: transport,
		// A redirect is not followed: the secret must not be sent to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// post returns nil once the consumer at that URL has handled the message. ctx must have a deadline, which the consumer
// gets as the time that is left.
func (c *client) post(ctx context.Context, base string, m bus.Message) error {
	deadline, _ := ctx.Deadline()
	status := 0
	err := auth.TrySecrets(c.secrets, func(secret string) (int, error) {
		left := time.Until(deadline) - replyTime
		if left <= 0 {
			return 0, context.DeadlineExceeded
		}
		url := strings.TrimSuffix(base, "/") + contract.MessagesPath + m.Topic
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(m.Body))
		if err != nil {
			return 0, err
		}
		auth.SignInternal(req, secret)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(headerID, rand.Text())
		req.Header.Set(headerTimeout, strconv.FormatInt(left.Milliseconds(), 10))
		if len(m.Keys) > 0 {
			req.Header.Set(headerKeys, strings.Join(m.Keys, " "))
		}
		res, err := c.http.Do(req)
		if err != nil {
			return 0, err
		}
		defer func() { _ = res.Body.Close() }()
		_, _ = io.CopyN(io.Discard, res.Body, maxErrorBody) // so that the connection is used again
		status = res.StatusCode
		return status, nil
	})
	if err != nil {
		return err
	}
	if status != http.StatusNoContent {
		return fmt.Errorf("%s: status %d", base, status)
	}
	return nil
}
