package rocketmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// errNoTopic says that no name server knows the topic: nobody made it yet, or its brokers are away.
var errNoTopic = errors.New("no name server knows the topic")

// share is what one broker has of a topic. Shares are compared by value.
type share struct {
	broker      string // name
	addr        string // of its master
	read, write int    // queues
	perm        int
}

// links keeps one connection for each address. It is for one goroutine.
type links map[string]*link

// ask asks over the connection that there is, or else over a new one.
func (ls links) ask(ctx context.Context, addr string, code int, fields map[string]string) (answer, error) {
	if l := ls[addr]; l != nil {
		a, err := l.ask(ctx, code, fields)
		if err == nil {
			return a, nil
		}
		l.close()
		delete(ls, addr)
	}
	l, err := dial(ctx, addr)
	if err != nil {
		return answer{}, err
	}
	a, err := l.ask(ctx, code, fields)
	if err != nil {
		l.close()
		return answer{}, fmt.Errorf("%s: %w", addr, err)
	}
	ls[addr] = l
	return a, nil
}

func (ls links) close() {
	for _, l := range ls {
		l.close()
	}
	clear(ls)
}

// route asks the name servers, one after the other, which brokers have the topic. The error is errNoTopic when at least
// one answered and none knew it.
func (ls links) route(ctx context.Context, nameServers []string, topic string) ([]share, error) {
	var failed []error
	unknown := false
	for _, addr := range nameServers {
		// Without the second field, map keys come unquoted, which is not JSON.
		a, err := ls.ask(ctx, addr, askRouteOfTopic, map[string]string{"topic": topic, "acceptStandardJsonOnly": "true"})
		switch {
		case err != nil:
			failed = append(failed, err)
		case a.code == answerNoTopic:
			unknown = true
		case a.code != answerOK:
			failed = append(failed, fmt.Errorf("%s: code %d: %s", addr, a.code, a.remark))
		default:
			return parseRoute(a.body)
		}
	}
	if unknown {
		return nil, errNoTopic
	}
	return nil, fmt.Errorf("no name server answers: %w", errors.Join(failed...))
}

func parseRoute(body []byte) ([]share, error) {
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
		return nil, fmt.Errorf("route: %w", err)
	}
	masters := make(map[string]string, len(r.BrokerDatas))
	for _, b := range r.BrokerDatas {
		masters[b.BrokerName] = b.BrokerAddrs["0"]
	}
	var shares []share
	for _, q := range r.QueueDatas {
		if addr := masters[q.BrokerName]; addr != "" {
			shares = append(shares, share{q.BrokerName, addr, q.ReadQueueNums, q.WriteQueueNums, q.Perm})
		}
	}
	if len(shares) == 0 {
		return nil, errNoTopic
	}
	sortShares(shares)
	return shares, nil
}

// consumers asks a broker for the ids of the group's consumers. Any answer, also that it knows none, says that it is alive.
func (ls links) consumers(ctx context.Context, addr, group string) ([]string, error) {
	a, err := ls.ask(ctx, addr, askConsumers, map[string]string{"consumerGroup": group})
	if err != nil {
		return nil, err
	}
	if a.code != answerOK {
		return nil, nil
	}
	var list struct{ ConsumerIdList []string }
	if err := json.Unmarshal(a.body, &list); err != nil {
		return nil, fmt.Errorf("%s: consumers of a group: %w", addr, err)
	}
	return list.ConsumerIdList, nil
}

// isInstance tells whether a client id, which is an IP address, @ and the instance name, is that instance's.
func isInstance(clientID, instance string) bool { return strings.HasSuffix(clientID, "@"+instance) }
