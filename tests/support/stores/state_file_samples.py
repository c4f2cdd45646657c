"""Samples of state files: the text as RocketMQ (fastjson 1.2.83) writes it, and the state it stands for.

They are the specification's, made with RocketMQ's own classes. Files that brokers wrote are in the golden
directories (tests/golden/test_state_files_of_versions.py).
"""

from typing import Any

__all__ = ["DATA_VERSION", "STATE_FILES"]

DATA_VERSION = {"counter": 3, "stateVersion": 0, "timestamp": 1_726_740_000_000}

STATE_FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "delayOffset.json": (
        """{
	"dataVersion":{
		"counter":3,
		"stateVersion":0,
		"timestamp":1726740000000
	},
	"offsetTable":{3:24,4:11,18:2
	}
}""",
        {"dataVersion": DATA_VERSION, "offsetTable": {3: 24, 4: 11, 18: 2}},
    ),
    "delayOffset.json, empty": (
        """{
	"dataVersion":{
		"counter":3,
		"stateVersion":0,
		"timestamp":1726740000000
	},
	"offsetTable":{}
}""",
        {"dataVersion": DATA_VERSION, "offsetTable": {}},
    ),
    "consumerOffset.json": (
        """{
	"dataVersion":{
		"counter":3,
		"stateVersion":0,
		"timestamp":1726740000000
	},
	"groupTopicMap":{
		"GroupA":["TopicTest","%RETRY%GroupA"]
	},
	"offsetTable":{
		"%RETRY%GroupA@GroupA":{0:0
		},
		"TopicTest@GroupA":{0:5,1:7
		}
	}
}""",
        {
            "dataVersion": DATA_VERSION,
            "groupTopicMap": {"GroupA": ["TopicTest", "%RETRY%GroupA"]},
            "offsetTable": {"%RETRY%GroupA@GroupA": {0: 0}, "TopicTest@GroupA": {0: 5, 1: 7}},
        },
    ),
    "topics.json": (
        """{
	"dataVersion":{
		"counter":3,
		"stateVersion":0,
		"timestamp":1726740000000
	},
	"topicConfigTable":{
		"%RETRY%GroupA":{
			"attributes":{},
			"order":false,
			"perm":6,
			"readQueueNums":1,
			"topicFilterType":"SINGLE_TAG",
			"topicName":"%RETRY%GroupA",
			"topicSysFlag":0,
			"writeQueueNums":1
		}
	}
}""",
        {
            "dataVersion": DATA_VERSION,
            "topicConfigTable": {
                "%RETRY%GroupA": {
                    "attributes": {},
                    "order": False,
                    "perm": 6,
                    "readQueueNums": 1,
                    "topicFilterType": "SINGLE_TAG",
                    "topicName": "%RETRY%GroupA",
                    "topicSysFlag": 0,
                    "writeQueueNums": 1,
                }
            },
        },
    ),
    "subscriptionGroup.json": (
        """{
	"dataVersion":{
		"counter":3,
		"stateVersion":0,
		"timestamp":1726740000000
	},
	"forbiddenTable":{},
	"subscriptionGroupTable":{
		"GroupA":{
			"attributes":{},
			"brokerId":0,
			"consumeBroadcastEnable":true,
			"consumeEnable":true,
			"consumeFromMinEnable":true,
			"consumeMessageOrderly":false,
			"consumeTimeoutMinute":15,
			"groupName":"GroupA",
			"groupRetryPolicy":{
				"type":"CUSTOMIZED"
			},
			"groupSysFlag":0,
			"notifyConsumerIdsChangedEnable":true,
			"retryMaxTimes":16,
			"retryQueueNums":1,
			"whichBrokerWhenConsumeSlowly":1
		}
	}
}""",
        {
            "dataVersion": DATA_VERSION,
            "forbiddenTable": {},
            "subscriptionGroupTable": {
                "GroupA": {
                    "attributes": {},
                    "brokerId": 0,
                    "consumeBroadcastEnable": True,
                    "consumeEnable": True,
                    "consumeFromMinEnable": True,
                    "consumeMessageOrderly": False,
                    "consumeTimeoutMinute": 15,
                    "groupName": "GroupA",
                    "groupRetryPolicy": {"type": "CUSTOMIZED"},
                    "groupSysFlag": 0,
                    "notifyConsumerIdsChangedEnable": True,
                    "retryMaxTimes": 16,
                    "retryQueueNums": 1,
                    "whichBrokerWhenConsumeSlowly": 1,
                }
            },
        },
    ),
}
"""Name of the file -> (text, state)."""
