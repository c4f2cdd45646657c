// RocketMQ's client for Go (rocketmq-client-go) as published: sends, or consumes until it is ended.
//
//	client NAME_SERVER send TOPIC GROUP BODY...
//	client NAME_SERVER consume TOPIC GROUP
//
// It prints a JSON object a line: of each send its status, of each message what it was given. A body "again"
// fails at its first delivery.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var printing sync.Mutex

func print(value any) {
	line, err := json.Marshal(value)
	check(err)
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var statuses = map[primitive.SendStatus]string{primitive.SendOK: "SEND_OK"}

func send(nameServer, topic, group string, bodies []string) {
	p, err := rocketmq.NewProducer(
		producer.WithNameServer([]string{nameServer}), producer.WithGroupName(group))
	check(err)
	check(p.Start())
	for _, body := range bodies {
		message := primitive.NewMessage(topic, []byte(body)).WithTag("A").WithKeys([]string{body})
		result, err := p.SendSync(context.Background(), message)
		check(err)
		print(map[string]any{"status": statuses[result.Status]})
	}
	check(p.Shutdown())
}

func consume(nameServer, topic, group string) {
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer([]string{nameServer}), consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	check(err)
	check(c.Subscribe(topic, consumer.MessageSelector{},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, message := range messages {
				print(map[string]any{"body": string(message.Body), "times": message.ReconsumeTimes})
				if string(message.Body) == "again" && message.ReconsumeTimes == 0 {
					return consumer.ConsumeRetryLater, nil
				}
			}
			return consumer.ConsumeSuccess, nil
		}))
	check(c.Start())
	select {}
}

func main() {
	rlog.SetLogLevel("error")
	nameServer, operation, topic, group := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	if operation == "send" {
		send(nameServer, topic, group, os.Args[5:])
	} else {
		consume(nameServer, topic, group)
	}
}
