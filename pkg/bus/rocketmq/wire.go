package rocketmq

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the brokers' algorithm
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// Codes of the requests that this package sends itself: the client library has no call for them that is bounded,
// uncached and returns the response code.
const (
	requestSend        = 10
	requestOffset      = 14
	requestCreateTopic = 17
	requestConsumers   = 38
	requestRoute       = 105
	responseOK         = 0
	responseDenied     = 16
	responseNoTopic    = 17
	protocolVersion    = 317 // the client library's
	maxFrame           = 16 << 20
	responseFlag       = 1
)

// connection is a connection to a name server or broker that carries one request at a time.
type connection struct {
	conn  net.Conn
	login primitive.Credentials // of the user that signs; none for unsigned requests
	seq   int32
}

type command struct {
	Code      int               `json:"code"`
	Language  string            `json:"language"`
	Version   int               `json:"version"`
	Opaque    int32             `json:"opaque"`
	Flag      int               `json:"flag"`
	Remark    string            `json:"remark,omitempty"`
	ExtFields map[string]string `json:"extFields,omitempty"`
}

type response struct {
	code   int
	remark string
	body   []byte
}

func dial(ctx context.Context, addr string, login primitive.Credentials) (*connection, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &connection{conn: conn, login: login}, nil
}

func (l *connection) close() { _ = l.conn.Close() } // an error of Close loses nothing

// sign returns the fields of a request with the access key and the signature of its user, as ACL 2.0 verifies them.
func sign(login primitive.Credentials, fields map[string]string, body []byte) map[string]string {
	signed := maps.Clone(fields)
	signed["AccessKey"] = login.AccessKey
	mac := hmac.New(sha1.New, []byte(login.SecretKey))
	for _, name := range slices.Sorted(maps.Keys(signed)) {
		mac.Write([]byte(signed[name]))
	}
	mac.Write(body)
	signed["Signature"] = base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return signed
}

// request sends one request and returns its response. After an error the connection must be closed.
func (l *connection) request(ctx context.Context, code int, fields map[string]string, body []byte) (response, error) {
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	l.seq++
	if l.login.AccessKey != "" {
		fields = sign(l.login, fields, body)
	}
	header, err := json.Marshal(command{
		Code: code, Language: "GO", Version: protocolVersion, Opaque: l.seq, ExtFields: fields,
	})
	if err != nil {
		return response{}, err
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(header))) // the top byte, 0, means a JSON header
	if _, err := l.conn.Write(slices.Concat(frame, header, body)); err != nil {
		return response{}, err
	}
	for {
		got, body, err := l.read()
		if err != nil {
			return response{}, err
		}
		if got.Flag&responseFlag != 0 && got.Opaque == l.seq {
			return response{code: got.Code, remark: got.Remark, body: body}, nil
		}
	}
}

func (l *connection) read() (command, []byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(l.conn, size[:]); err != nil {
		return command{}, nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > maxFrame {
		return command{}, nil, fmt.Errorf("invalid frame length %d", n)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(l.conn, frame); err != nil {
		return command{}, nil, err
	}
	h := binary.BigEndian.Uint32(frame) & 0xffffff
	if h > n-4 {
		return command{}, nil, errors.New("invalid header length: longer than the frame")
	}
	var c command
	if err := json.Unmarshal(frame[4:4+h], &c); err != nil {
		return command{}, nil, fmt.Errorf("decode header: %w", err)
	}
	return c, frame[4+h:], nil
}
