// RocketMQ's client for Node (ali-ons) as published: sends, or consumes until it is ended.
//
//     node client.js NAME_SERVER send TOPIC GROUP BODY...
//     node client.js NAME_SERVER consume TOPIC GROUP
//
// It prints a JSON object a line: of each send its status, of each message what it was given. A body "again"
// fails at its first delivery.
'use strict';

const { Consumer, Message, Producer } = require('ali-ons');

const [nameServer, operation, topic, group, ...bodies] = process.argv.slice(2);
const quiet = { info() {}, debug() {}, warn() {}, error: error => console.error(error) };
const options = {
  httpclient: {}, nameSrv: nameServer, accessKeyId: 'none', accessKeySecret: 'none', logger: quiet,
  pullTimeDelayMillsWhenException: 200, pullThresholdForQueue: 1000,
};

function print(value) {
  process.stdout.write(JSON.stringify(value) + '\n');
}

async function send() {
  const producer = new Producer({ ...options, producerGroup: group });
  await producer.ready();
  for (const body of bodies) {
    const message = new Message(topic, 'A', body);
    message.keys = [ body ];
    print({ status: (await producer.send(message)).sendStatus });
  }
  process.exit(0);
}

async function consume() {
  const consumer = new Consumer({ ...options, consumerGroup: group, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET' });
  consumer.on('error', error => console.error(error));
  consumer.subscribe(topic, '*', async message => {
    const times = message.reconsumeTimes;
    print({ body: message.body.toString(), times });
    if (message.body.toString() === 'again' && times === 0) {
      throw new Error('as the test wants it');
    }
  });
  await consumer.ready();
}

(operation === 'send' ? send() : consume()).catch(error => {
  console.error(error);
  process.exit(1);
});
