package rocketmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// errNoTopic: no name server has a route of the topic. The topic does not exist yet, or its brokers are down.
var errNoTopic = errors.New("no name server has the topic")

// brokerQueues describes the queues of a topic on one broker. Values are compared with ==.
type brokerQueues struct {
	broker      string // name
	addr        string // of its master
	read, write int    // queues
	perm        int
}

// connections keeps one connection to each address. It is used by one goroutine.
type connections struct {
	login primitive.Credentials
	open  map[string]*connection
}

func newConnections(cfg Config) *connections {
	return &connections{login: cfg.login(), open: make(map[string]*connection)}
}

// request sends a request over the open connection to addr. If there is none or it fails, it opens a new one. It fails
// with ErrDenied after a response of that code.
func (ls *connections) request(ctx context.Context, addr string, code int, fields map[string]string, body []byte) (
	response, error,
) {
	a, err := ls.send(ctx, addr, code, fields, body)
	if err == nil && a.code == responseDenied {
		err = fmt.Errorf("%s: %w: code %d: %s", addr, ErrDenied, a.code, a.remark)
	}
	return a, err
}

func (ls *connections) send(ctx context.Context, addr string, code int, fields map[string]string, body []byte) (
	response, error,
) {
	if l := ls.open[addr]; l != nil {
		a, err := l.request(ctx, code, fields, body)
		if err == nil {
			return a, nil
		}
		l.close()
		delete(ls.open, addr)
	}
	l, err := dial(ctx, addr, ls.login)
	if err != nil {
		return response{}, err
	}
	a, err := l.request(ctx, code, fields, body)
	if err != nil {
		l.close()
		return response{}, fmt.Errorf("%s: %w", addr, err)
	}
	ls.open[addr] = l
	return a, nil
}

func (ls *connections) close() {
	for _, l := range ls.open {
		l.close()
	}
	clear(ls.open)
}

// route queries the name servers, one after the other, for the brokers that have the topic. It fails with errNoTopic
// when at least one responded and none has the topic.
func (ls *connections) route(ctx context.Context, nameServers []string, topic string) ([]brokerQueues, error) {
	var failed []error
	unknown := false
	for _, addr := range nameServers {
		// Without the second field, map keys come unquoted, which is not JSON.
		a, err := ls.request(ctx, addr, requestRoute,
			map[string]string{"topic": topic, "acceptStandardJsonOnly": "true"}, nil)
		switch {
		case err != nil:
			failed = append(failed, err)
		case a.code == responseNoTopic:
			unknown = true
		case a.code != responseOK:
			failed = append(failed, fmt.Errorf("%s: code %d: %s", addr, a.code, a.remark))
		default:
			return parseRoute(a.body)
		}
	}
	if unknown {
		return nil, errNoTopic
	}
	return nil, fmt.Errorf("no name server responds: %w", errors.Join(failed...))
}

func parseRoute(body []byte) ([]brokerQueues, error) {
	var r struct {
		QueueDatas []struct {
			BrokerName     string
			ReadQueueNums  int
			WriteQueueNums int
			Perm           int
		}
		BrokerDatas []struct {
			BrokerName  string
			BrokerAddrs map[string]string // by broker id; 0 is the master
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("decode route: %w", err)
	}
	masters := make(map[string]string, len(r.BrokerDatas))
	for _, b := range r.BrokerDatas {
		masters[b.BrokerName] = b.BrokerAddrs["0"]
	}
	var found []brokerQueues
	for _, q := range r.QueueDatas {
		if addr := masters[q.BrokerName]; addr != "" {
			found = append(found, brokerQueues{q.BrokerName, addr, q.ReadQueueNums, q.WriteQueueNums, q.Perm})
		}
	}
	if len(found) == 0 {
		return nil, errNoTopic
	}
	sortByBroker(found)
	return found, nil
}

// consumers queries a broker for the ids of the group's consumers. It returns an error only if the broker does not
// respond or denies access; a broker that has no such group returns none.
func (ls *connections) consumers(ctx context.Context, addr, group string) ([]string, error) {
	a, err := ls.request(ctx, addr, requestConsumers, map[string]string{"consumerGroup": group}, nil)
	if err != nil {
		return nil, err
	}
	if a.code != responseOK {
		return nil, nil
	}
	var list struct{ ConsumerIdList []string }
	if err := json.Unmarshal(a.body, &list); err != nil {
		return nil, fmt.Errorf("%s: decode consumers of group %s: %w", addr, group, err)
	}
	return list.ConsumerIdList, nil
}

// isInstance reports whether a client id, which has the form address@instance, belongs to the instance.
func isInstance(clientID, instance string) bool { return strings.HasSuffix(clientID, "@"+instance) }
