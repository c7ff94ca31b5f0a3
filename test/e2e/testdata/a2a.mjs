// A client written with @a2a-js/sdk. It prints a line for each thing that it has seen.
import { randomUUID } from 'node:crypto';
import { Role, TaskState } from '@a2a-js/sdk';
import { ClientFactory } from '@a2a-js/sdk/client';

const [front, extension] = process.argv.slice(2);
const state = (s) => TaskState[s] ?? String(s);

function say(text) {
  return {
    tenant: '',
    message: {
      messageId: randomUUID(),
      contextId: '',
      taskId: '',
      role: Role.ROLE_USER,
      parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: '' }],
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
    },
    configuration: undefined,
    metadata: undefined,
  };
}

function told(response) {
  const { $case, value } = response.payload;
  switch ($case) {
    case 'task':
      return `task ${state(value.status.state)}`;
    case 'statusUpdate':
      return state(value.status.state);
    default:
      return $case;
  }
}

const client = await new ClientFactory().createFromUrl(front + 'worker/');

const answer = await client.sendMessage(say('hello'));
console.log('answer', answer.parts[0].content.value);

let id;
for await (const event of client.sendMessageStream(say('work'))) {
  if (event.payload.$case === 'task') id = event.payload.value.id;
  console.log('stream', told(event));
}
const task = await client.getTask({ tenant: '', id, historyLength: undefined });
console.log('got', state(task.status.state));

// The connection of a stream is cut; another one subscribes, and the task is cancelled.
const cut = new AbortController();
try {
  for await (const event of client.sendMessageStream(say('work'), { signal: cut.signal })) {
    if (event.payload.$case === 'task') id = event.payload.value.id;
    cut.abort();
  }
} catch {
  console.log('cut');
}
let cancelled = false;
for await (const event of client.resubscribeTask({ tenant: '', id })) {
  console.log('again', told(event));
  if (!cancelled) {
    cancelled = true;
    const task = await client.cancelTask({ tenant: '', id, metadata: undefined });
    console.log('cancelled', state(task.status.state));
  }
}

const config = { tenant: '', taskId: id, id: 'one', url: 'https://example.com/hook', token: '', authentication: undefined };
const made = await client.createTaskPushNotificationConfig(config);
console.log('push', made.url);
await client.deleteTaskPushNotificationConfig({ tenant: '', taskId: id, id: made.id });

try {
  await client.getTask({ tenant: '', id: 'no-such-task', historyLength: undefined });
} catch (e) {
  console.log('unknown', e.name);
}

const strict = await new ClientFactory().createFromUrl(front + 'strict/');
try {
  await strict.sendMessage(say('hello'));
} catch (e) {
  console.log('strict', e.name);
}
const knowing = await strict.sendMessage(say('hello'), { serviceParameters: { 'A2A-Extensions': extension } });
console.log('knowing', knowing.parts[0].content.value);

const card = await client.getAgentCard();
console.log('card', card.name);
