package process

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/settings"
)

// Every row of the table applies to an error of its texts: none is hidden by an earlier one.
func TestEachCauseApplies(t *testing.T) {
	for _, c := range causes {
		text := strings.Join(c.texts, " ... ")
		for k := kindRedis; k <= kindHTTP; k <<= 1 {
			if c.of&k == 0 {
				continue
			}
			got := causeOf(k, "before "+text+" after")
			if c.of == k {
				require.Equal(t, c, got, text)
			}
			require.NotEmpty(t, got.variables, text)
			require.NotEmpty(t, got.says, text)
		}
	}
}

func TestSentencesNameTheVariables(t *testing.T) {
	s := Settings{Redis: settings.Redis{Addrs: []string{"127.0.0.1:1"}}}
	refused := errors.New("dial tcp 127.0.0.1:1: connect: connection refused")
	denied := errors.New("WRONGPASS invalid\nusername-password pair")
	moved := errors.New("MOVED 1 127.0.0.1:2")
	shared := s.LimitsBackEnd()
	s.Settings = admission.Settings{RedisPassword: settings.NewCredential("hush")}
	ownUser := s.LimitsBackEnd()
	s.RedisAddrs = []string{"127.0.0.1:2"}
	own := s.LimitsBackEnd()
	for _, c := range []struct {
		of   BackEnd
		err  error
		want string
	}{
		{s.GateBackEnd(), refused, "REDIS_ADDRS: dial tcp 127.0.0.1:1: connect: connection refused: nothing listens there: "},
		{s.GateBackEnd(), denied, "REDIS_USERNAME, REDIS_PASSWORD: WRONGPASS invalid username-password pair: the user or "},
		{shared, denied, "REDIS_USERNAME, REDIS_PASSWORD: "},
		{ownUser, denied, "LIMIT_REDIS_USERNAME, LIMIT_REDIS_PASSWORD: "},
		{ownUser, refused, "REDIS_ADDRS: "},
		{own, refused, "LIMIT_REDIS_ADDRS: "},
		{own, moved, "LIMIT_REDIS_MODE: MOVED 1 127.0.0.1:2: the server is a node of a cluster: LIMIT_REDIS_MODE=cluster is missing"},
		{own, errors.New("EOF"), "REDIS_TLS, LIMIT_REDIS_ADDRS: "},
		{own, settings.Wrong("REDIS_PASSWORD_FILE", "names no file"), "REDIS_PASSWORD_FILE names no file"},
		{s.BrokerBackEnd("order"), errors.New("no such thing"), "ROCKETMQ_NAMESRV: no such thing: no known cause"},
	} {
		got := c.of.sentence(c.err)
		require.True(t, strings.HasPrefix(got, c.want), got)
		require.NotContains(t, got, "$")
	}
}

func TestConnectChecksAllAtOnce(t *testing.T) {
	one := func(err error) BackEnd {
		return HTTPBackEnd("server", "A_URL", "http://a.test", func(ctx context.Context) error {
			_, bounded := ctx.Deadline()
			require.True(t, bounded)
			return err
		})
	}
	var out bytes.Buffer
	require.NoError(t, Connect(t.Context(), &out, one(nil)))
	require.Regexp(t, `^server {18} ok     http://a.test, \d+ ms\n$`, out.String())
	out.Reset()
	err := Connect(t.Context(), &out, one(nil), one(errors.New("connection refused")), one(nil))
	require.EqualError(t, err, "1 of 3 back ends cannot be used")
	require.Regexp(t, `(?m)^server {18} FAILED A_URL: connection refused: nothing listens there`, out.String())

	both := make(chan struct{})
	meet := func(ctx context.Context) error {
		select {
		case both <- struct{}{}:
		case <-both:
		case <-time.After(connectTimeout):
			return errors.New("alone")
		}
		return nil
	}
	require.NoError(t, Connect(t.Context(), &out, HTTPBackEnd("a", "A", "", meet), HTTPBackEnd("b", "B", "", meet)))
}
