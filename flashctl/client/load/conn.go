package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Conn is one kept-alive HTTP/1.1 connection for measurements. It writes the bytes of a request as they are and parses
// only what a measurement needs of the response. net/http's client does more than its server: on a small machine it
// would use as much processor time as the server under test. Conn supports no redirects, no chunks and no pipelining.
type Conn struct {
	addr    string
	conn    net.Conn
	bounded time.Time // when the deadline of conn was last set
	buf     []byte
	have    int // bytes read into buf
}

// Response is the response to a request. Head and Body are valid until the next call of their connection.
type Response struct {
	Status int
	Head   []byte // each line ends with CRLF
	Body   []byte
	Took   time.Duration // from the call, with the opening of the connection if there was none
}

const (
	maxResponse = 1 << 20
	dialTimeout = 5 * time.Second
	// exchangeTimeout bounds one exchange; it may be exceeded by a second.
	exchangeTimeout = 10 * time.Second
)

var (
	errChunked  = errors.New("response is chunked, which this client does not support")
	errResponse = errors.New("response is not valid HTTP/1.1")
	headEnd     = []byte("\r\n\r\n")
	lineEnd     = headEnd[:2]
)

// NewConn returns a connection to a host:port, which it opens when it is needed.
func NewConn(addr string) *Conn { return &Conn{addr: addr, buf: make([]byte, 4096)} }

// Dial opens the connection unless it is open.
func (c *Conn) Dial(ctx context.Context) error {
	if c.conn != nil {
		return nil
	}
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	c.conn, c.bounded, c.have = conn, time.Time{}, 0
	return nil
}

// Close closes the connection.
func (c *Conn) Close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// Exchange sends a request and reads its response. After an error the connection is closed and the outcome of the
// request is unknown.
func (c *Conn) Exchange(ctx context.Context, request []byte) (r Response, err error) {
	began := time.Now()
	if err := c.Dial(ctx); err != nil {
		return r, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	// Setting a deadline costs as much as a system call, so it is set once a second.
	if began.Sub(c.bounded) > time.Second {
		if err := c.conn.SetDeadline(began.Add(exchangeTimeout + time.Second)); err != nil {
			return r, err
		}
		c.bounded = began
	}
	if _, err := c.conn.Write(request); err != nil {
		return r, err
	}
	r, err = c.response()
	r.Took = time.Since(began)
	return r, err
}

func (c *Conn) response() (r Response, err error) {
	c.have = 0
	head := -1
	for head < 0 {
		if err := c.read(); err != nil {
			return r, err
		}
		head = bytes.Index(c.buf[:c.have], headEnd)
	}
	status, length, last, err := parseHead(c.buf[:head+2])
	if err != nil {
		return r, err
	}
	from := head + len(headEnd)
	for c.have < from+length {
		if err := c.read(); err != nil {
			return r, err
		}
	}
	if c.have > from+length {
		return r, fmt.Errorf("%w: %d bytes follow the body", errResponse, c.have-from-length)
	}
	if last {
		c.Close()
	}
	return Response{Status: status, Head: c.buf[:head+2], Body: c.buf[from : from+length]}, nil
}

// read reads more bytes of the response.
func (c *Conn) read() error {
	if c.have == len(c.buf) {
		if len(c.buf) >= maxResponse {
			return fmt.Errorf("response is longer than %d bytes", maxResponse)
		}
		c.buf = append(c.buf, make([]byte, len(c.buf))...)
	}
	n, err := c.conn.Read(c.buf[c.have:])
	c.have += n
	if n > 0 {
		return nil
	}
	return err
}

// parseHead parses the status line and the headers that a measurement needs; each line ends with CRLF.
func parseHead(head []byte) (status, length int, last bool, err error) {
	line, rest, _ := bytes.Cut(head, lineEnd)
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, 0, false, errResponse
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, false, errResponse
	}
	length = -1
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, lineEnd)
		switch {
		case hasName(line, "Content-Length:"):
			value := string(bytes.TrimSpace(line[len("Content-Length:"):]))
			if length, err = strconv.Atoi(value); err != nil || length < 0 || length > maxResponse {
				return 0, 0, false, fmt.Errorf("%w: %q", errResponse, line)
			}
		case hasName(line, "Transfer-Encoding:"):
			return 0, 0, false, errChunked
		case hasName(line, "Connection:"):
			last = bytes.EqualFold(bytes.TrimSpace(line[len("Connection:"):]), []byte("close"))
		}
	}
	switch {
	case status == 204 || status == 304:
		length = 0
	case length < 0:
		return 0, 0, false, fmt.Errorf("%w: no Content-Length", errResponse)
	}
	return status, length, last, nil
}

func hasName(line []byte, name string) bool {
	return len(line) >= len(name) && line[0]|0x20 == name[0]|0x20 && bytes.EqualFold(line[:len(name)], []byte(name))
}

// Field returns the value of a header, "" if the response does not have it. The values of repeated headers are joined by
// a comma and a space.
func (r *Response) Field(name string) string {
	var values []string
	for line := range bytes.SplitSeq(r.Head, lineEnd) {
		if hasName(line, name+":") {
			values = append(values, string(bytes.TrimSpace(line[len(name)+1:])))
		}
	}
	return strings.Join(values, ", ")
}

// Member returns a string member of the body, which is a flat JSON object; "" if it has none. It supports the output of
// the services only: no spaces, no escapes.
func (r *Response) Member(name string) string {
	_, rest, _ := bytes.Cut(r.Body, []byte(`"`+name+`":"`))
	value, _, found := bytes.Cut(rest, []byte(`"`))
	if !found {
		return ""
	}
	return string(value)
}

// Outcome returns the status of a response, with the code of a refusal.
func Outcome(status int, body []byte) string {
	if status < 300 {
		return strconv.Itoa(status)
	}
	var p struct{ Code string }
	_ = json.Unmarshal(body, &p) // the response of a proxy has no code
	return strings.TrimSpace(strconv.Itoa(status) + " " + p.Code)
}
